/**
 * RT-52: tickets between engine processes over real NIXL, with the history as it is by default and without: prompts
 * around the block size, streamed and not, alone and at once, and again.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { complete, promptOf, type CompletionRequest } from '../src/completions.ts'
import { startDeployment, type Deployment } from '../src/deployment.ts'

const blockTokens = 16
const maxTokens = 8
const lengths = [1, 15, 16, 17, 33, 30, 504]

const requestsOf = (lengthList: readonly number[], seed: number): CompletionRequest[] =>
  lengthList.map((length, index) => ({
    prompt: promptOf(length, seed + index),
    maxTokens,
    stream: index % 2 === 0,
  }))

describe.each([
  ['the history of the defaults', {}],
  ['no history', { gpuCacheBytes: 0 }],
] as const)('%s', (_, connectorOptions) => {
  const hasHistory = !('gpuCacheBytes' in connectorOptions)
  let deployment: Deployment
  let oracle: string
  beforeAll(async () => {
    deployment = await startDeployment({
      connector: 'xavier',
      connectorOptions,
      engineFlags: [
        `--block-size=${blockTokens}`,
        ...['--max-model-len=512', '--num-blocks=2048', '--max-num-seqs=32'],
        '--prefix-caching=off',
      ],
    })
    oracle = await deployment.oracleUrl()
  })
  afterAll(() => deployment?.close())

  async function expectVerified(requests: readonly CompletionRequest[]): Promise<void> {
    const expected = await Promise.all(requests.map((request) => complete(oracle, request)))
    const before = (await deployment.stats('decode')).verification
    const outcomes = await Promise.all(
      requests.map((request) => complete(deployment.routerUrl, request)),
    )
    const after = (await deployment.stats('decode')).verification
    expect(outcomes).toEqual(expected)
    expect(expected.every(({ kind }) => kind === 'text')).toBe(true)
    const blocks = requests.reduce(
      (sum, { prompt }) => sum + Math.ceil(prompt.length / blockTokens),
      0,
    )
    expect(after.blocksLoaded - before.blocksLoaded).toBe(blocks)
    expect(after.mismatchedBlocks).toBe(0)
  }

  /** Of P, whose every ticket has ended. */
  async function settledCounters(ticketCount: number): Promise<Readonly<Record<string, number>>> {
    let counters: Readonly<Record<string, number>> = {}
    const tickets = async (): Promise<(number | undefined)[]> => {
      counters = (await deployment.stats('prefill')).connectorCounters
      return ['ticketsRegistered', 'ticketsFinished', 'leasesExpired'].map((name) => counters[name])
    }
    await expect.poll(tickets, { timeout: 60_000 }).toEqual([ticketCount, ticketCount, 0])
    return counters
  }

  test('RT-52: one after the other, each equals the oracle, every block loaded and verified', async () => {
    for (const request of requestsOf(lengths, 1_000)) await expectVerified([request])
  })

  test('RT-52: 28 at once, streamed and not, all equal the oracle', async () => {
    await expectVerified(requestsOf([...lengths, ...lengths, ...lengths, ...lengths], 2_000))
    await settledCounters(5 * lengths.length)
  })

  test('RT-30, RT-52: each that comes again is restored on P with a history, and computed without; D has all of it anew', async () => {
    let ticketCount = 5 * lengths.length
    const serve = async (request: CompletionRequest) => {
      await expectVerified([request])
      return settledCounters((ticketCount += 1))
    }
    for (const request of requestsOf([33, 504], 3_000)) {
      let before = await serve(request)
      for (const stream of [false, true]) {
        const after = await serve({ ...request, stream })
        const grown = (name: string): number => (after[name] ?? 0) - (before[name] ?? 0)
        const seen = [grown('historyHitBlocks') > 0, grown('historyLoadedRequests')]
        expect(seen).toEqual(hasHistory ? [true, 1] : [false, 0])
        before = after
      }
    }
  })
})
