/** The conversation's next turn: P reads what D kept of the last one, with the text of one engine. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { startEngine, type RunningEngine } from '../src/index.ts'
import {
  complete,
  inlineOptions,
  prefillOf,
  startPair,
  statsOf,
  type Pair,
} from './support/pair.ts'
import { createFabric } from './support/test-core.ts'

const settings = { blockSize: 16, maxModelLen: 1_024, numBlocks: 512 }
const maxTokens = 24

let pair: Pair
let oracle: RunningEngine
beforeAll(async () => {
  // Without a prefix cache P has nothing of the last turn: what it doesn't compute comes from D.
  const options = { bidirectional: true, decoderBlocksTtlMs: 20_000 }
  pair = await startPair({ ...settings, prefixCaching: 'off', options })
  oracle = await startEngine({ ...inlineOptions(createFabric()), ...settings })
})
afterAll(async () => {
  await pair.close()
  await oracle.close()
})

it('three turns, each loaded from D as far as it was said', async () => {
  let prompt = 'a prompt of some length, with which a conversation begins. '
  let params = await prefillOf(pair, prompt)
  for (let turn = 0; turn < 3; turn++) {
    const body = { prompt, max_tokens: maxTokens }
    const answer = await complete(pair.decode, { ...body, kv_transfer_params: params })
    expect(answer.text).toBe((await complete(oracle, body)).text)
    const kept = answer.kvTransferParams
    expect(kept).toMatchObject({ do_remote_decode: true, remote_engine_id: 'd0' })
    const saidTokenCount = kept?.['remote_num_tokens'] as number
    // The last token's KV was never computed.
    expect(saidTokenCount).toBe(prompt.length + maxTokens - 1)
    prompt = `${prompt}${answer.text} and then somebody asks on. `
    const prefill = await complete(pair.prefill, {
      prompt,
      max_tokens: 1,
      kv_transfer_params: kept,
    })
    expect(prefill.kvferry).toMatchObject({
      load: { outcome: 'loaded', bytes: Math.ceil(saidTokenCount / 16) * 16 * 1_024 },
      verification: { mismatchedBlocks: 0 },
    })
    params = prefill.kvTransferParams as Record<string, unknown>
  }
  await complete(pair.decode, { prompt, max_tokens: 1, kv_transfer_params: params })
  expect((await statsOf(pair.decode)).verification.mismatchedBlocks).toBe(0)
})

it('another conversation with what D kept of this one is computed', async () => {
  const [own, other] = ['own '.repeat(12), 'bad '.repeat(12)]
  const first = await complete(pair.decode, {
    prompt: own,
    max_tokens: maxTokens,
    kv_transfer_params: await prefillOf(pair, own),
  })
  const prefill = async (prompt: string) =>
    complete(pair.prefill, {
      prompt,
      max_tokens: 1,
      kv_transfer_params: first.kvTransferParams,
    })
  const wrong = await prefill(`${other}${first.text} and on`)
  expect(wrong.kvferry).toMatchObject({ load: null })
  // P makes it, so D can have it.
  expect(wrong.kvTransferParams).toMatchObject({ do_remote_prefill: true })
  const right = await prefill(`${own}${first.text} and on`)
  expect(right.kvferry).toMatchObject({ load: { outcome: 'loaded' } })
})
