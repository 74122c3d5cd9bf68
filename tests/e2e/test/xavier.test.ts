/** RT-52: tickets between engine processes over real NIXL: prompts around the block size, streamed and not, alone and at once. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { complete, promptOf, type CompletionRequest } from '../src/completions.ts'
import { startDeployment, type Deployment } from '../src/deployment.ts'

const blockTokens = 16
const maxTokens = 8
const lengths = [1, 15, 16, 17, 33, 30, 504]

let deployment: Deployment
let oracle: string
beforeAll(async () => {
  deployment = await startDeployment({
    connector: 'xavier',
    engineFlags: [
      `--block-size=${blockTokens}`,
      '--max-model-len=512',
      '--num-blocks=2048',
      '--max-num-seqs=32',
    ],
  })
  oracle = await deployment.oracleUrl()
})
afterAll(() => deployment?.close())

const requestsOf = (lengthList: readonly number[], seed: number): CompletionRequest[] =>
  lengthList.map((length, index) => ({
    prompt: promptOf(length, seed + index),
    maxTokens,
    stream: index % 2 === 0,
  }))

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

test('RT-52: one after the other, each equals the oracle, every block loaded and verified', async () => {
  for (const request of requestsOf(lengths, 1_000)) await expectVerified([request])
})

test('RT-52: 28 at once, streamed and not, all equal the oracle', async () => {
  await expectVerified(requestsOf([...lengths, ...lengths, ...lengths, ...lengths], 2_000))
  const tickets = async (): Promise<(number | undefined)[]> => {
    const { connectorCounters: counters } = await deployment.stats('prefill')
    return ['ticketsRegistered', 'ticketsFinished', 'leasesExpired'].map((name) => counters[name])
  }
  const count = 5 * lengths.length
  await expect.poll(tickets, { timeout: 60_000 }).toEqual([count, count, 0])
})
