/**
 * Push with real processes: engines are killed and stopped while WRITEs are open. The consumer's blocks are
 * written by another process, so they come back only on its word or when it is seen to be gone.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { complete, promptOf } from '../src/completions.ts'
import { startDeployment, type Deployment } from '../src/deployment.ts'
import {
  expectNoBlockKept,
  expectNothingAbandoned,
  expectOneOutcomeEach,
} from '../src/expectations.ts'
import { abandonedSharedMemory } from '../src/process-facts.ts'
import { waitUntil } from '../src/wait-until.ts'

const leaseDurationMs = 3_000
const requestCount = 12
const promptTokens = 480
const preset = 'llama-3.1-8b'
const kvScale = 8

let deployment: Deployment

const start = async (progressive: boolean): Promise<void> => {
  deployment = await startDeployment({
    connector: 'push',
    connectorOptions: { leaseDurationMs, transferDeadlineMs: leaseDurationMs },
    // Chunks of 128 tokens, so that progressive has something to send before the prompt is whole.
    prefillFlags: progressive ? ['--option=progressive=true'] : [],
    engineFlags: [
      `--model=${preset}`,
      `--kv-scale=${kvScale}`,
      '--time-scale=0.02',
      '--num-blocks=1024',
      '--max-model-len=512',
      '--max-num-seqs=32',
      '--max-num-batched-tokens=128',
      '--prefix-caching=off',
    ],
    // Slow enough that a WRITE is met in the middle.
    env: { UCX_TLS: 'tcp' },
  })
}

/** The tests of a group share a deployment. */
function useDeployment(progressive: boolean): void {
  let abandonedBefore: string[]
  beforeAll(async () => {
    abandonedBefore = abandonedSharedMemory()
    await start(progressive)
  })
  afterAll(async () => {
    await deployment?.close()
    await expectNothingAbandoned(abandonedBefore)
  })
}

const completeAll = (url: string, round: number, signal?: AbortSignal) =>
  Promise.all(
    Array.from({ length: requestCount }, (_, index) => {
      const prompt = promptOf(promptTokens, round * 1_000 + index)
      const model = `${preset}/${kvScale}`
      return complete(url, {
        ...{ model, prompt, maxTokens: 4 },
        ...(signal === undefined ? {} : { signal }),
      })
    }),
  )

/** Everything works: texts are the oracle's, and D loaded what P wrote, or some of it where that took too long. */
async function expectServes(round: number): Promise<void> {
  const expected = await completeAll(await deployment.oracleUrl(), round)
  expect(expected.filter(({ kind }) => kind === 'error')).toEqual([])
  const before = (await deployment.stats('decode')).connectorCounters['loadsDone'] ?? 0
  expect(await completeAll(deployment.routerUrl, round)).toEqual(expected)
  const { connectorCounters, verification } = await deployment.stats('decode')
  expect(connectorCounters['loadsDone']).toBeGreaterThan(before)
  expect(verification.mismatchedBlocks).toBe(0)
}

const loadsDone = async (): Promise<number> =>
  (await deployment.stats('decode')).connectorCounters['loadsDone'] ?? 0

/**
 * D holds back its next handshake with a P that it failed to reach, longer with each failure (`handshakeBackOffMaxMs`), and
 * computes meanwhile. Each try has prompts of its own: those that D knows need no load.
 */
async function untilLoadedAgain(firstRound: number): Promise<void> {
  const before = await loadsDone()
  let round = firstRound
  await waitUntil('D loads from the next P', async () => {
    await completeAll(deployment.routerUrl, round++)
    return (await loadsDone()) > before
  })
}

const untilWriting = (): Promise<void> =>
  waitUntil('P writes', async () => {
    const { agentCounters } = await deployment.stats('prefill')
    return agentCounters.transfersOpen > 0
  })

/** Disturbs an engine while P has WRITEs open; ends once the round's requests have. */
async function disturb(round: number, act: () => Promise<void> | void): Promise<void> {
  const expected = await completeAll(await deployment.oracleUrl(), round)
  const outcomes = completeAll(deployment.routerUrl, round)
  await untilWriting()
  await act()
  expectOneOutcomeEach(await outcomes, expected)
}

async function expectNothingKept(): Promise<void> {
  await expectNoBlockKept(deployment, 'prefill')
  await expectNoBlockKept(deployment, 'decode')
}

describe('whole prompts', () => {
  useDeployment(false)

  test('kill -9 of P: no block of D stays out of service; the next P serves', async () => {
    await expectServes(1)
    await disturb(2, () => deployment.kill('prefill', 'SIGKILL'))
    await expectNoBlockKept(deployment, 'decode')
    await deployment.restart('prefill')
    await untilLoadedAgain(100)
    await expectServes(3)
    await expectNothingKept()
  })

  test('an engine stopped for longer than a WRITE may take: its word is waited for, then everything comes back', async () => {
    await expectServes(4)
    /** What the engine that runs shows. */
    const seen = {
      prefill: async () => {
        const { blocks, connectorCounters } = await deployment.stats('decode')
        return (connectorCounters['blocksQuarantined'] ?? 0) > 0 || blocks.owned === 0
      },
      decode: async () => {
        const { agentCounters } = await deployment.stats('prefill')
        return agentCounters.transfersDraining > 0 || agentCounters.transfersOpen === 0
      },
    }
    for (const [round, name] of [
      [5, 'prefill'],
      [6, 'decode'],
    ] as const) {
      await disturb(round, async () => {
        deployment.kill(name, 'SIGSTOP')
        try {
          await waitUntil('the other engine takes a WRITE for overdue, or none is open', seen[name])
        } finally {
          deployment.kill(name, 'SIGCONT')
        }
      })
      await expectNothingKept()
    }
    await expectServes(7)
  })

  test('every client leaves while P writes: both engines hear of it, and neither keeps a block', async () => {
    const countOf = async (name: 'prefill' | 'decode', counter: string) =>
      (await deployment.stats(name)).connectorCounters[counter] ?? 0
    const [aborted, expired] = [
      await countOf('decode', 'loadsAborted'),
      await countOf('prefill', 'leasesExpired'),
    ]
    const clients = new AbortController()
    const outcomes = completeAll(deployment.routerUrl, 8, clients.signal)
    await untilWriting()
    clients.abort()
    const ends = (await outcomes).map((end) => (end.kind === 'error' ? end.code : end.kind))
    expect(ends).toContain('LEFT')
    expect(ends.filter((end) => end !== 'LEFT' && end !== 'text')).toEqual([])
    await expectNothingKept()
    expect(await countOf('decode', 'loadsAborted')).toBeGreaterThan(aborted)
    // Told, not found out by a lease's end.
    expect(await countOf('prefill', 'leasesExpired')).toBe(expired)
    await expectServes(9)
  })
})

describe('chunk by chunk', () => {
  useDeployment(true)

  test('kill -9 of D while chunks leave: P keeps no block; the next D serves', async () => {
    await expectServes(1)
    await disturb(2, () => deployment.kill('decode', 'SIGKILL'))
    await expectNoBlockKept(deployment, 'prefill')
    await deployment.restart('decode')
    await expectServes(3)
    await expectNothingKept()
  })
})
