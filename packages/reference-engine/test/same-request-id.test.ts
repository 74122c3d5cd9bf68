/**
 * Two callers that give the same `X-Request-Id`, straight at the engines: what they share is a name in the
 * answer, and nothing else.
 */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { startEngine, type RunningEngine } from '../src/index.ts'
import { nameRequest } from '../src/http/request-id.ts'
import {
  complete,
  inlineOptions,
  prefillOf,
  startPair,
  statsOf,
  type Pair,
} from './support/pair.ts'
import { createFabric } from './support/test-core.ts'

const settings = { blockSize: 16, maxModelLen: 512, numBlocks: 512 }
const maxTokens = 8
const headers = { 'x-request-id': 'one-for-all' }
/** As long as each other: nothing but their tokens tells them apart. */
const prompts = ['first', 'other'].map((word) => `${word} caller, `.repeat(9))

let pair: Pair
let oracle: RunningEngine
let expected: string[]
beforeAll(async () => {
  pair = await startPair({ ...settings, prefixCaching: 'off' })
  oracle = await startEngine({ ...inlineOptions(createFabric()), ...settings })
  expected = []
  for (const prompt of prompts) {
    expected.push((await complete(oracle, { prompt, max_tokens: maxTokens })).text)
  }
})
afterAll(async () => {
  await pair.close()
  await oracle.close()
})

const loaded = { load: { outcome: 'loaded' }, verification: { mismatchedBlocks: 0 } }
const decode = (prompt: string, params: Record<string, unknown>) =>
  complete(pair.decode, { prompt, max_tokens: maxTokens, kv_transfer_params: params }, headers)

async function expectNothingKept(): Promise<void> {
  await expect
    .poll(async () => (await statsOf(pair.prefill)).blocks, { timeout: 5_000 })
    .toMatchObject({ owned: 0, leased: 0, quarantined: 0 })
}

it('#27987, #29665 one id at once: both are loaded, each with its own KV and its own text', async () => {
  // Upstream: the id alone told requests apart, and two callers were given each other's text.
  const params = await Promise.all(prompts.map((prompt) => prefillOf(pair, prompt, headers)))
  const ids = params.map(({ remote_request_id: id }) => String(id))
  expect(new Set(ids).size).toBe(2)
  for (const id of ids) expect(id).toMatch(/one-for-all/)
  const answers = await Promise.all(
    prompts.map((prompt, index) => decode(prompt, params[index] as Record<string, unknown>)),
  )
  expect(answers.map(({ text }) => text)).toEqual(expected)
  for (const { kvferry } of answers) expect(kvferry).toMatchObject(loaded)
  await expectNothingKept()
})

it('#27987, #29665 one id in turn: the second has nothing of the first', async () => {
  // Upstream: what the first left behind under the id was taken for the second's.
  for (const [index, prompt] of prompts.entries()) {
    const answer = await decode(prompt, await prefillOf(pair, prompt, headers))
    expect(answer.text).toBe(expected[index])
    expect(answer.kvferry).toMatchObject(loaded)
  }
  await expectNothingKept()
})

it('the engine’s own name of a request differs though the caller’s is the same', () => {
  let next = 0
  const randomHex = (byteCount: number) => (next++).toString(16).padStart(2 * byteCount, '0')
  const names = [0, 1].map(() => nameRequest('cmpl', 'order-66', randomHex))
  expect(names.map(({ publicId }) => publicId)).toEqual(['cmpl-order-66', 'cmpl-order-66'])
  expect(new Set(names.map(({ internalId }) => internalId)).size).toBe(2)
})
