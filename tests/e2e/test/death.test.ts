/**
 * kill -9 of either engine while transfers are open. KV goes over TCP and is large, so that a transfer takes
 * long enough to be met; that it was met is asserted, not assumed.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { complete, promptOf } from '../src/completions.ts'
import { startDeployment, type Deployment } from '../src/deployment.ts'
import {
  expectNoBlockKept,
  expectNothingAbandoned,
  expectOneOutcomeEach,
} from '../src/expectations.ts'
import { abandonedSharedMemory, openFileCount } from '../src/process-facts.ts'
import { waitUntil } from '../src/wait-until.ts'

const leaseDurationMs = 3_000
const requestCount = 16
const promptTokens = 480
const preset = 'llama-3.1-8b'
const kvScale = 8
/** The served name says that it is scaled. */
const model = `${preset}/${kvScale}`

let deployment: Deployment
let abandonedBefore: string[]
/** One for all tests: each leaves it as it found it, and asserts that. */
beforeAll(async () => {
  abandonedBefore = abandonedSharedMemory()
  deployment = await startDeployment({
    engineFlags: [
      `--model=${preset}`,
      `--kv-scale=${kvScale}`,
      '--time-scale=0.02',
      '--num-blocks=1024',
      '--max-model-len=512',
      '--max-num-seqs=32',
      '--prefix-caching=off',
    ],
    connectorOptions: { leaseDurationMs, transferDeadlineMs: leaseDurationMs },
    env: { UCX_TLS: 'tcp' },
  })
})
afterAll(async () => {
  await deployment?.close()
  await expectNothingAbandoned(abandonedBefore)
})

const requestsOf = (round: number) =>
  Array.from({ length: requestCount }, (_, index) => ({
    model,
    prompt: promptOf(promptTokens, round * 1_000 + index),
    maxTokens: 4,
  }))

async function completeAll(url: string, round: number) {
  return Promise.all(requestsOf(round).map((request) => complete(url, request)))
}

const transfers = async () => (await deployment.stats('decode')).agentCounters

/** Resolves at a moment when D's agent has READs open. */
const transferIsOpen = () =>
  waitUntil('a transfer is open', async () => (await transfers()).transfersOpen > 0)

/** Everything works as before: the control of a fault test, before and after the fault. */
async function expectServes(round: number): Promise<void> {
  const oracle = await deployment.oracleUrl()
  const expected = await completeAll(oracle, round)
  expect(expected.filter((outcome) => outcome.kind === 'error')).toEqual([])
  expect(await completeAll(deployment.routerUrl, round)).toEqual(expected)
}

/** A signal may come too late: what was sent already ends the open READs. Then another round tries again. */
const attemptsMax = 10

/** Something that happens to P while D reads from it. */
interface Fault {
  /** What P was, for the message that no round managed it. */
  readonly name: string
  /** Begins while a READ is open. */
  strike(): Promise<void>
  /** A READ met it; asked when every request of the round has ended. */
  isMet(failedBefore: number): Promise<boolean>
  /** Before the next round. */
  mend(): Promise<void>
}

const killed: Fault = {
  name: 'killed',
  strike: async () => deployment.kill('prefill', 'SIGKILL'),
  isMet: async (failedBefore) => (await transfers()).transfersFailed > failedBefore,
  mend: () => deployment.restart('prefill'),
}

/** Until a READ of D's is overdue. */
function stopped(): Fault {
  let isOverdue = false
  return {
    name: 'stopped',
    async strike() {
      deployment.kill('prefill', 'SIGSTOP')
      try {
        await waitUntil('an open READ is overdue, or none is open', async () => {
          const { agentCounters, connectorCounters } = await deployment.stats('decode')
          isOverdue = (connectorCounters['blocksQuarantined'] ?? 0) > 0
          return isOverdue || agentCounters.transfersOpen === 0
        })
      } finally {
        deployment.kill('prefill', 'SIGCONT')
      }
    },
    isMet: async () => isOverdue,
    mend: async () => {},
  }
}

/** Requests of one round, with the fault in the middle; as many rounds as it takes until a READ meets it. */
async function strikeInMidTransfer(fault: Fault, firstRound: number): Promise<void> {
  for (let round = firstRound; round < firstRound + attemptsMax; round++) {
    const expected = await completeAll(await deployment.oracleUrl(), round)
    const failedBefore = (await transfers()).transfersFailed
    const outcomes = completeAll(deployment.routerUrl, round)
    await transferIsOpen()
    await fault.strike()
    expectOneOutcomeEach(await outcomes, expected)
    if (await fault.isMet(failedBefore)) return
    await fault.mend()
  }
  throw new Error(`no READ was open when P was ${fault.name}, in ${attemptsMax} rounds`)
}

describe('kill -9 in mid-transfer', () => {
  test('of P: each request is recomputed or gets a typed error; the next P serves (66)', async () => {
    await expectServes(1)
    const filesBefore = openFileCount(deployment.child('decode').pid)
    await strikeInMidTransfer(killed, 10)
    await expectNoBlockKept(deployment, 'decode')

    await deployment.restart('prefill')
    await expectServes(3)
    await expectNoBlockKept(deployment, 'prefill')
    await expectNoBlockKept(deployment, 'decode')
    // The dead P's sockets are gone; the new P's take their place. A few may differ, one per request may not.
    expect(openFileCount(deployment.child('decode').pid)).toBeLessThan(filesBefore + requestCount)
  })

  test('of D: each request gets a typed error; leases end, P keeps no block; the next D serves (66)', async () => {
    await expectServes(1)
    const expected = await completeAll(await deployment.oracleUrl(), 2)
    const filesBefore = openFileCount(deployment.child('prefill').pid)

    const outcomes = completeAll(deployment.routerUrl, 2)
    await transferIsOpen()
    deployment.kill('decode', 'SIGKILL')
    const ended = await outcomes
    expectOneOutcomeEach(ended, expected)
    expect(ended.some((outcome) => outcome.kind === 'error')).toBe(true)
    await expectNoBlockKept(deployment, 'prefill')

    await deployment.restart('decode')
    await expectServes(3)
    await expectNoBlockKept(deployment, 'prefill')
    expect(openFileCount(deployment.child('prefill').pid)).toBeLessThan(filesBefore + requestCount)
  })
})

test('a stopped P: loads wait past their deadline, blocks stay out of service until the transfers end', async () => {
  await expectServes(1)
  await strikeInMidTransfer(stopped(), 10)
  await expectNoBlockKept(deployment, 'decode')
  await expectNoBlockKept(deployment, 'prefill')
  await expectServes(3)
})
