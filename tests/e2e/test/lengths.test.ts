/** Prompt lengths around the block size and at the limit, streamed and not, alone and 32 at once. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { complete, promptOf, type CompletionRequest } from '../src/completions.ts'
import { startDeployment, type Deployment } from '../src/deployment.ts'

const blockTokens = 16
const maxModelLen = 512
const maxTokens = 8
const lengths = [1, 15, 16, 17, 32, maxModelLen - maxTokens]

let deployment: Deployment
let oracle: string
beforeAll(async () => {
  deployment = await startDeployment({
    engineFlags: [
      `--block-size=${blockTokens}`,
      `--max-model-len=${maxModelLen}`,
      '--num-blocks=2048',
      '--max-num-seqs=32',
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
  expect(
    expected.every((outcome) => outcome.kind === 'text' && outcome.text.length === maxTokens),
  ).toBe(true)
  const blocks = requests.reduce(
    (sum, request) => sum + Math.ceil(request.prompt.length / blockTokens),
    0,
  )
  expect(after.blocksLoaded - before.blocksLoaded).toBe(blocks)
  expect(after.blocksVerified).toBeGreaterThanOrEqual(after.blocksLoaded)
  expect(after.mismatchedBlocks).toBe(0)
}

describe.each([false, true])('stream: %s', (stream) => {
  test.each(lengths)('a prompt of %i tokens equals the oracle (9, 63)', async (length) => {
    await expectVerified([
      { prompt: promptOf(length, length * 2 + Number(stream)), maxTokens, stream },
    ])
  })
})

test('32 at once, streamed and not, all equal the oracle', async () => {
  const requests = Array.from({ length: 32 }, (_, index) => ({
    prompt: promptOf(lengths[index % lengths.length] as number, 100_000 + index),
    maxTokens,
    stream: index % 2 === 0,
  }))
  await expectVerified(requests)
})

test('a chat equals the oracle, its KV loaded', async () => {
  const chat = async (url: string): Promise<unknown> => {
    const response = await fetch(`${url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({
        model: 'tiny',
        messages: [{ role: 'user', content: promptOf(100, 4_711) }],
        max_completion_tokens: maxTokens,
      }),
    })
    return ((await response.json()) as { choices: unknown }).choices
  }
  const before = (await deployment.stats('decode')).verification.blocksLoaded
  const expected = await chat(oracle)
  expect(expected).toMatchObject([{ message: { role: 'assistant' }, finish_reason: 'length' }])
  expect(await chat(deployment.routerUrl)).toEqual(expected)
  expect((await deployment.stats('decode')).verification.blocksLoaded).toBeGreaterThan(before)
})

test('a prompt that does not fit is refused with a typed error', async () => {
  const outcome = await complete(deployment.routerUrl, {
    prompt: promptOf(maxModelLen + 1, 7),
    maxTokens,
  })
  expect(outcome).toMatchObject({ kind: 'error', status: 400 })
})
