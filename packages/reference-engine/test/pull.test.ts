/** Prefill and decode over the pull connector: the text of one engine, whatever the prompt. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startEngine, type RunningEngine } from '../src/index.ts'
import {
  complete,
  errorOf,
  inlineOptions,
  post,
  prefillOf,
  startPair,
  statsOf,
  type Pair,
} from './support/pair.ts'
import { createFabric } from './support/test-core.ts'

const blockSize = 16
const maxModelLen = 512
const maxTokens = 8
const settings = { blockSize, maxModelLen, numBlocks: 512 }

let pair: Pair
let oracle: RunningEngine
beforeAll(async () => {
  pair = await startPair(settings)
  oracle = await startEngine({ ...inlineOptions(createFabric()), ...settings })
})
afterAll(async () => {
  await pair.close()
  await oracle.close()
})

/** Prompts of different lengths share no prefix, or they would be found in the cache. */
const promptOf = (length: number, salt = String.fromCharCode(33 + length)): string =>
  Array.from({ length }, (_, index) =>
    String.fromCharCode(97 + ((index * 7 + salt.charCodeAt(0)) % 26)),
  ).join('')

async function viaPair(prompt: string, tokens = maxTokens) {
  const params = await prefillOf(pair, prompt)
  return complete(pair.decode, { prompt, max_tokens: tokens, kv_transfer_params: params })
}

async function streamedText(body: Record<string, unknown>): Promise<string> {
  const response = await post(pair.decode, { ...body, stream: true })
  const lines = (await response.text()).split('\n\n').filter((line) => line.startsWith('data: {'))
  return lines
    .map((line) => JSON.parse(line.slice(6)) as { choices: { text: string }[] })
    .map((chunk) => chunk.choices[0]?.text ?? '')
    .join('')
}

describe('prefill and decode over pull', () => {
  const lengths = [
    1,
    blockSize - 1,
    blockSize,
    blockSize + 1,
    2 * blockSize,
    maxModelLen - maxTokens,
  ]
  for (const length of lengths) {
    it(`say what one engine says for a prompt of ${length} tokens (2, 9, 63)`, async () => {
      const prompt = promptOf(length)
      const blockCount = Math.ceil(length / blockSize)
      const expected = (await complete(oracle, { prompt, max_tokens: maxTokens })).text
      const answer = await viaPair(prompt)
      expect(answer.text).toBe(expected)
      expect(answer.kvferry).toMatchObject({
        load: { outcome: 'loaded', bytes: blockCount * blockSize * 1_024 },
        verification: { blocksLoaded: blockCount, mismatchedBlocks: 0 },
      })
      const params = await prefillOf(pair, `${prompt.slice(1)}!`)
      const body = { prompt: `${prompt.slice(1)}!`, max_tokens: maxTokens }
      const streamed = await streamedText({ ...body, kv_transfer_params: params })
      expect(streamed).toBe((await complete(oracle, body)).text)
    })
  }

  it('say the same for 32 requests at once, and leave nothing behind', async () => {
    const prompts = Array.from({ length: 32 }, (_, index) =>
      promptOf(20 + 5 * index, String.fromCharCode(33 + index)),
    )
    const [answers, expected] = await Promise.all([
      Promise.all(prompts.map((prompt) => viaPair(prompt))),
      Promise.all(prompts.map((prompt) => complete(oracle, { prompt, max_tokens: maxTokens }))),
    ])
    expect(answers.map(({ text }) => text)).toEqual(expected.map(({ text }) => text))
    const decode = await statsOf(pair.decode)
    expect(decode.verification.blocksVerified).toBe(decode.verification.blocksLoaded)
    expect(decode.verification.mismatchedBlocks).toBe(0)
    expect(decode.blocks).toMatchObject({ owned: 0, leased: 0, quarantined: 0 })
    await expect
      .poll(async () => (await statsOf(pair.prefill)).blocks, { timeout: 5_000 })
      .toMatchObject({ owned: 0, leased: 0, quarantined: 0 })
  })

  async function refusedCount(): Promise<number> {
    const text = await (await fetch(`${pair.decode.url}/metrics`)).text()
    const count = /^kv_messages_refused_total\{where="handoff"\} (\d+)/m.exec(text)?.[1]
    return Number(count ?? 0)
  }

  async function failNextRead(of: Pair): Promise<void> {
    const response = await fetch(`${of.decode.url}/kvferry/v1/peer`)
    const { incarnation } = (await response.json()) as { incarnation: string }
    of.fabric.faults.failNextPosts(`d0:${incarnation}`, 1)
  }

  it('hand over all blocks of a prompt, also those that P had cached (3)', async () => {
    const prompt = 'unlike any other prompt '.repeat(5).slice(0, 100)
    const blocksOf = ({ remote_block_ids: ids }: Record<string, unknown>) => (ids as number[][])[0]
    const first = await prefillOf(pair, prompt)
    const second = await prefillOf(pair, prompt)
    expect(blocksOf(first)).toHaveLength(7)
    expect(blocksOf(second)).toHaveLength(7)
    // Its whole blocks are the same ones, the last one is its own.
    expect(blocksOf(second)!.slice(0, 6)).toEqual(blocksOf(first)!.slice(0, 6))
    const before = (await statsOf(pair.decode)).verification.blocksLoaded
    const body = { prompt, max_tokens: maxTokens, kv_transfer_params: second }
    const { text } = await complete(pair.decode, body)
    expect(text).toBe((await complete(oracle, { prompt, max_tokens: maxTokens })).text)
    expect((await statsOf(pair.decode)).verification.blocksLoaded - before).toBe(7)
  })

  it('recompute what could not be read, with the same text', async () => {
    const prompt = promptOf(90, '#')
    const params = await prefillOf(pair, prompt)
    await failNextRead(pair)
    const body = { prompt, max_tokens: maxTokens }
    const answer = await complete(pair.decode, { ...body, kv_transfer_params: params })
    expect(answer.text).toBe((await complete(oracle, body)).text)
    expect(answer.kvferry).toMatchObject({
      recomputed: true,
      load: { outcome: 'failed', errorCode: 'ERR_KV_TRANSFER_FAILED' },
      verification: { mismatchedBlocks: 0 },
    })
  })

  it('compute a prompt that comes with another one’s handoff, though it is as long', async () => {
    const [own, other] = [promptOf(90, '&'), promptOf(90, '*')]
    const params = await prefillOf(pair, other)
    const refusedBefore = await refusedCount()
    const body = { prompt: own, max_tokens: maxTokens }
    const answer = await complete(pair.decode, { ...body, kv_transfer_params: params })
    expect(answer.text).toBe((await complete(oracle, body)).text)
    expect(answer.kvferry).toMatchObject({ load: null, verification: { mismatchedBlocks: 0 } })
    expect(await refusedCount()).toBe(refusedBefore + 1)
    // It's still good for the prompt it belongs to.
    const right = { prompt: other, max_tokens: maxTokens }
    const loaded = await complete(pair.decode, { ...right, kv_transfer_params: params })
    expect(loaded.kvferry).toMatchObject({ load: { outcome: 'loaded' } })
  })

  it('answer with the error instead when the policy is to fail', async () => {
    const strict = await startPair({ ...settings, config: { loadFailurePolicy: 'fail' } })
    try {
      for (const stream of [false, true]) {
        const prompt = promptOf(90, stream ? '%' : '$')
        const params = await prefillOf(strict, prompt)
        await failNextRead(strict)
        const body = { prompt, max_tokens: maxTokens, stream, kv_transfer_params: params }
        const error = await errorOf(await post(strict.decode, body))
        expect(error).toMatchObject({
          status: 500,
          type: 'server_error',
          code: 'ERR_KV_TRANSFER_FAILED',
        })
      }
      expect((await statsOf(strict.decode)).blocks).toMatchObject({ owned: 0, quarantined: 0 })
    } finally {
      await strict.close()
    }
  })

  it('compute a prompt themselves when the handoff is nonsense', async () => {
    const body = { prompt: promptOf(40, '&'), max_tokens: maxTokens }
    const params = { do_remote_prefill: true, remote_block_ids: 'none', remote_engine_id: 7 }
    const answer = await complete(pair.decode, { ...body, kv_transfer_params: params })
    expect(answer.text).toBe((await complete(oracle, body)).text)
    expect(answer.kvferry).toMatchObject({ load: null })
  })

  it('describe themselves so that a router can match them', async () => {
    const peer = await (await fetch(`${pair.prefill.url}/kvferry/v1/peer`)).json()
    expect(peer).toMatchObject({
      connector: 'pull',
      transferMode: 'pull',
      engineId: 'p0',
      role: 'producer',
      blockTokens: blockSize,
      model: 'tiny',
      sideChannel: { host: '127.0.0.1' },
    })
  })
})
