/**
 * Two prefill and two decode engines over real NIXL, under a load that does not pause: engines are killed and
 * stopped at moments that a seed draws, and whatever they were doing, each request has one outcome, each
 * block comes back, and everybody serves again. `KVFERRY_FAULT_SEED=N` repeats a run's draws, as far as
 * processes repeat.
 */
import { afterEach, expect, test } from 'vitest'
import { createSeededRandom, type SeededRandom } from '@kvferry/connector-api/testing'
import { complete, promptOf, type CompletionRequest, type Outcome } from '../src/completions.ts'
import { roleOf, startDeployment, type Deployment, type PairedName } from '../src/deployment.ts'
import {
  expectNoBlockKept,
  expectNothingAbandoned,
  expectOneOutcomeEach,
} from '../src/expectations.ts'
import { abandonedSharedMemory } from '../src/process-facts.ts'
import { startLoad, type RunningLoad } from '../src/running-load.ts'

const leaseDurationMs = 2_000
const clientCount = 6
const maxTokens = 8
const requestOf = (index: number): CompletionRequest => ({
  prompt: promptOf(40 + ((index * 97) % 400), index),
  maxTokens,
  stream: index % 2 === 0,
})

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
    const requests = Array.from({ length: 8 }, (_, index) => requestOf(1e6 * round + index))
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

const isLong = process.env['KVFERRY_TEST_LONG'] === '1'
const seed = Number(process.env['KVFERRY_FAULT_SEED'] ?? 1)

test.for([
  ['pull', {}],
  ['push', { progressive: true }],
] as const)(
  `2P2D, %s: kill -9 and SIGSTOP at random moments of a running load (66; seed ${seed})`,
  async ([connector, options], { skip }) => {
    skip(connector === 'pull' && !isLong, 'half a minute more: set KVFERRY_TEST_LONG=1')
    const abandonedBefore = abandonedSharedMemory()
    const running = await startDeployment({
      connector,
      prefillCount: 2,
      decodeCount: 2,
      connectorOptions: { leaseDurationMs, transferDeadlineMs: leaseDurationMs },
      prefillFlags: Object.entries(options).map(([key, value]) => `--option=${key}=${value}`),
      engineFlags: ['--max-model-len=512', '--max-num-batched-tokens=128', '--num-blocks=512'],
      env: { UCX_TLS: 'tcp' },
    })
    deployment = running
    await expectEverybodyServes(running)

    const load = startLoad({ url: running.routerUrl, clientCount, requestOf })
    for (const fault of drawFaults(running.names, createSeededRandom(seed))) {
      await strike(running, load, fault)
    }
    await load.until(load.sentCount + clientCount)
    const sent = await load.stop()

    const expected = await oracleOutcomes(
      running,
      sent.map(({ request }) => request),
    )
    expectOneOutcomeEach(
      sent.map(({ outcome }) => outcome),
      expected,
    )
    expect(sent.some(({ outcome }) => outcome.kind === 'text')).toBe(true)
    await expectEverybodyServes(running)
    for (const name of running.names) {
      await expectNoBlockKept(running, name)
      expect((await running.stats(name)).verification.mismatchedBlocks, name).toBe(0)
    }
    await running.close()
    await expectNothingAbandoned(abandonedBefore)
  },
)
