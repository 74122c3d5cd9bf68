/**
 * Two prefill and two decode engines over real NIXL, under load: engines are killed and stopped at moments that a
 * seed draws, and whatever they were doing, each request has one outcome, each block, ticket and reservation
 * comes back, and everybody serves again. `KVFERRY_FAULT_SEED=N` repeats a run's draws, as far as
 * processes repeat.
 *
 * It shows that what is lost comes back, not by which rule: a WRITE or READ with a killed process fails by itself, its
 * peer is removed, leases end. What one rule alone frees, and when, the simulated scenarios show (push:
 * `scenarios/lost-consumers`).
 */
import { afterEach, expect, test } from 'vitest'
import { createSeededRandom, type SeededRandom } from '@kvferry/connector-api/testing'
import { complete, promptOf, type CompletionRequest, type Outcome } from '../src/completions.ts'
import { roleOf, startDeployment, type Deployment, type PairedName } from '../src/deployment.ts'
import {
  expectNoBlockKept,
  expectNothingAbandoned,
  expectNothingOpen,
  expectOneOutcomeEach,
} from '../src/expectations.ts'
import { abandonedSharedMemory } from '../src/process-facts.ts'
import { startLoad, type RunningLoad } from '../src/running-load.ts'

const leaseDurationMs = 2_000
const clientCount = 6
const maxTokens = 8

/** Prompts of 3 to 28 blocks. After `promptCount` of them they come again. */
const requestsOf =
  (promptCount: number) =>
  (index: number): CompletionRequest => {
    const seed = index % promptCount
    const prompt = promptOf(40 + ((seed * 97) % 400), seed)
    return { prompt, maxTokens, stream: index % 2 === 0 }
  }
const newRequest = requestsOf(Infinity)

interface Scenario {
  readonly connector: string
  /** Of all engines. */
  readonly options: Readonly<Record<string, number>>
  readonly prefillFlags?: readonly string[]
  readonly blockCount: number
  readonly promptCount: number
  /** One load goes on through all faults; else it ends after each, and what is left is judged. */
  readonly areTogether: boolean
  readonly isLong: boolean
}

const leases = { leaseDurationMs, transferDeadlineMs: leaseDurationMs }
const unreturning = { blockCount: 512, promptCount: Infinity, areTogether: true }
/** Prompts of 360 blocks come again and again: twice what an engine has, and more than the device tier. */
const returning = {
  connector: 'xavier',
  options: {
    ...{ unclaimedTicketMs: leaseDurationMs, claimedTicketMs: leaseDurationMs },
    ...{ transferDeadlineMs: leaseDurationMs, gpuCacheBytes: 256 * 16_384 },
  },
  ...{ blockCount: 160, promptCount: 24 },
}
const scenarios: Readonly<Record<string, Scenario>> = {
  pull: { connector: 'pull', options: leases, ...unreturning, isLong: true },
  push: {
    ...{ connector: 'push', options: leases, ...unreturning, isLong: false },
    prefillFlags: ['--option=progressive=true'],
  },
  'xavier with history': { ...returning, areTogether: true, isLong: true },
  'xavier with history, judged after each': { ...returning, areTogether: false, isLong: true },
}

let deployment: Deployment | null = null
afterEach(async () => {
  await deployment?.close()
  deployment = null
})

interface Fault {
  readonly kind: 'kill' | 'stop'
  readonly victim: PairedName
  /** It strikes when so many more requests have begun. */
  readonly afterRequests: number
  /** For how long it is stopped; now and then for longer than a lease. */
  readonly stoppedMs: number
}

const oneOf = <T>(list: readonly T[], random: SeededRandom): T =>
  list[random.integer(list.length)] as T

/** One engine of each role is killed, one is stopped; who, in what order and when is drawn. */
function drawFaults(names: readonly PairedName[], random: SeededRandom): Fault[] {
  const faults = (['prefill', 'decode'] as const).flatMap((role) =>
    (['kill', 'stop'] as const).map((kind) => ({
      kind,
      victim: oneOf(
        names.filter((name) => roleOf(name) === role),
        random,
      ),
      afterRequests: 2 + random.integer(2 * clientCount),
      stoppedMs: random.integer(1.5 * leaseDurationMs),
      place: random.uniform(),
    })),
  )
  return faults.toSorted((one, other) => one.place - other.place)
}

async function strike(of: Deployment, load: RunningLoad, fault: Fault): Promise<void> {
  await load.until(load.sentCount + fault.afterRequests)
  if (fault.kind === 'kill') {
    of.kill(fault.victim, 'SIGKILL')
    await of.restart(fault.victim)
    return
  }
  of.kill(fault.victim, 'SIGSTOP')
  await new Promise((resolve) => setTimeout(resolve, fault.stoppedMs))
  of.kill(fault.victim, 'SIGCONT')
}

const completeAll = (url: string, requests: readonly CompletionRequest[]): Promise<Outcome[]> =>
  Promise.all(requests.map((request) => complete(url, request)))

/** In batches that fit the oracle's queue. */
async function oracleOutcomes(of: Deployment, requests: readonly CompletionRequest[]) {
  const url = await of.oracleUrl()
  const outcomes: Outcome[] = []
  for (let at = 0; at < requests.length; at += 64) {
    outcomes.push(...(await completeAll(url, requests.slice(at, at + 64))))
  }
  expect(outcomes.filter(({ kind }) => kind === 'error')).toEqual([])
  return outcomes
}

/** The router may know of an engine's return only after its next look: until then it may give typed errors. */
const roundCountMax = 60

/** Rounds of requests until one is served whole, and every engine has had a part in it. */
async function expectEverybodyServes(of: Deployment): Promise<void> {
  for (let round = 1; round <= roundCountMax; round++) {
    const requests = Array.from({ length: 8 }, (_, index) => newRequest(1e6 * round + index))
    const before = await Promise.all(of.names.map((name) => of.stats(name)))
    const outcomes = await completeAll(of.routerUrl, requests)
    const after = await Promise.all(of.names.map((name) => of.stats(name)))
    expectOneOutcomeEach(outcomes, await oracleOutcomes(of, requests))
    const hasServed = of.names.every((name, index) =>
      roleOf(name) === 'decode'
        ? after[index]!.verification.blocksLoaded > before[index]!.verification.blocksLoaded
        : after[index]!.steps > before[index]!.steps,
    )
    if (hasServed && outcomes.every(({ kind }) => kind === 'text')) return
    await new Promise((resolve) => setTimeout(resolve, 200))
  }
  throw new Error(`not everybody served in ${roundCountMax} rounds`)
}

/** Each request sent while these faults struck had one outcome, and nothing is left of any. */
async function expectSurvived(of: Deployment, faults: readonly Fault[], { promptCount }: Scenario) {
  const requestOf = requestsOf(promptCount)
  const load = startLoad({ url: of.routerUrl, clientCount, requestOf })
  for (const fault of faults) await strike(of, load, fault)
  await load.until(load.sentCount + clientCount)
  const sent = await load.stop()
  const expected = await oracleOutcomes(
    of,
    sent.map(({ request }) => request),
  )
  expectOneOutcomeEach(
    sent.map(({ outcome }) => outcome),
    expected,
  )
  expect(sent.some(({ outcome }) => outcome.kind === 'text')).toBe(true)
  await expectEverybodyServes(of)
  for (const name of of.names) {
    await expectNoBlockKept(of, name)
    await expectNothingOpen(of, name)
    expect((await of.stats(name)).verification.mismatchedBlocks, name).toBe(0)
  }
}

/** Blocks that those prefill engines restored that were not killed last of all. */
async function restoredBlocks(of: Deployment): Promise<number> {
  const stats = await Promise.all(of.names.map((name) => of.stats(name)))
  return stats.reduce((sum, { connectorCounters: { historyHitBlocks = 0 } }) => {
    return sum + historyHitBlocks
  }, 0)
}

const wantsLong = process.env['KVFERRY_TEST_LONG'] === '1'
const seed = Number(process.env['KVFERRY_FAULT_SEED'] ?? 1)

test.for(Object.entries(scenarios))(
  `2P2D, %s: kill -9 and SIGSTOP at random moments of a running load (66; seed ${seed})`,
  async ([, scenario], { skip }) => {
    skip(scenario.isLong && !wantsLong, 'half a minute more: set KVFERRY_TEST_LONG=1')
    const { connector, options, prefillFlags = [], blockCount, areTogether } = scenario
    const abandonedBefore = abandonedSharedMemory()
    const running = await startDeployment({
      ...{ connector, connectorOptions: options, prefillFlags },
      ...{ prefillCount: 2, decodeCount: 2 },
      engineFlags: [
        ...['--max-model-len=512', '--max-num-batched-tokens=128'],
        `--num-blocks=${blockCount}`,
      ],
      env: { UCX_TLS: 'tcp' },
    })
    deployment = running
    await expectEverybodyServes(running)
    const faults = drawFaults(running.names, createSeededRandom(seed))
    for (const group of areTogether ? [faults] : faults.map((fault) => [fault])) {
      await expectSurvived(running, group, scenario)
    }
    if (connector === 'xavier') expect(await restoredBlocks(running)).toBeGreaterThan(0)
    await running.close()
    await expectNothingAbandoned(abandonedBefore)
  },
)
