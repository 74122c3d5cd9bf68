/** `POST /v1/completions` over a real socket: validation, answers, streams. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startEngine, type RunningEngine } from '../src/index.ts'
import { errorOf, inlineOptions, post } from './support/pair.ts'
import { createFabric } from './support/test-core.ts'

let engine: RunningEngine
beforeAll(async () => {
  const options = inlineOptions(createFabric())
  engine = await startEngine({ ...options, engineId: 'e0', maxModelLen: 512 })
})
afterAll(() => engine.close())

describe('POST /v1/completions', () => {
  it('answers in the shape of OpenAI, with timings only for those who ask', async () => {
    const body = { model: 'tiny', prompt: 'hello', max_tokens: 4, temperature: 0.7, user: 'x' }
    const answer = (await (await post(engine, body)).json()) as Record<string, unknown>
    expect(answer).toMatchObject({
      object: 'text_completion',
      model: 'tiny',
      choices: [{ index: 0, logprobs: null, finish_reason: 'length' }],
      usage: { prompt_tokens: 5, completion_tokens: 4, total_tokens: 9 },
      kv_transfer_params: null,
      kvferry: { engineId: 'e0', load: null, recomputed: false },
    })
    expect(answer['id']).toMatch(/^cmpl-[0-9a-f]{32}$/)
    const plain = await fetch(`${engine.url}/v1/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-request-id': 'order-66' },
      body: JSON.stringify(body),
    })
    const plainAnswer = (await plain.json()) as Record<string, unknown>
    expect(plainAnswer['id']).toBe('cmpl-order-66')
    expect(plainAnswer).not.toHaveProperty('kvferry')
    expect(plainAnswer['choices']).toEqual(answer['choices'])
  })

  it('orders the moments of a request', async () => {
    const answer = (await (await post(engine, { prompt: 'when', max_tokens: 3 })).json()) as {
      kvferry: Record<string, number>
    }
    const { receivedAtMs, queuedAtMs, scheduledAtMs, prefillEndAtMs } = answer.kvferry
    const { firstTokenAtMs, lastTokenAtMs } = answer.kvferry
    const moments = [receivedAtMs, queuedAtMs, scheduledAtMs, firstTokenAtMs, lastTokenAtMs]
    expect(moments).toEqual([...moments].sort((a, b) => Number(a) - Number(b)))
    expect(prefillEndAtMs).toBeGreaterThanOrEqual(scheduledAtMs as number)
    expect(prefillEndAtMs).toBeLessThanOrEqual(firstTokenAtMs as number)
  })

  it('takes token ids as it takes their text', async () => {
    const text = (await (await post(engine, { prompt: 'abc', max_tokens: 5 })).json()) as object
    const ids = (await (await post(engine, { prompt: [97, 98, 99], max_tokens: 5 })).json()) as {
      choices: unknown
    }
    expect(text).toMatchObject({ choices: ids.choices })
  })

  it('counts bytes as tokens', async () => {
    const answer = (await (await post(engine, { prompt: 'é€', max_tokens: 1 })).json()) as {
      usage: { prompt_tokens: number }
    }
    expect(answer.usage.prompt_tokens).toBe(5)
  })

  const refused: [string, Record<string, unknown>, number, string, RegExp][] = [
    ['n above 1', { prompt: 'a', n: 2 }, 400, 'ERR_KV_UNSUPPORTED', /one request per completion/],
    ['best_of', { prompt: 'a', best_of: 3 }, 400, 'ERR_KV_UNSUPPORTED', /best_of/],
    ['a list of prompts', { prompt: ['a', 'b'] }, 400, 'ERR_KV_UNSUPPORTED', /per prompt/],
    ['lists of token ids', { prompt: [[1], [2]] }, 400, 'ERR_KV_UNSUPPORTED', /per prompt/],
    ['echo', { prompt: 'a', echo: true }, 400, 'ERR_KV_UNSUPPORTED', /echo/],
    ['logprobs', { prompt: 'a', logprobs: 1 }, 400, 'ERR_KV_UNSUPPORTED', /logprobs/],
    ['stop words', { prompt: 'a', stop: ['x'] }, 400, 'ERR_KV_UNSUPPORTED', /stop/],
    ['no prompt', { max_tokens: 1 }, 400, 'ERR_KV_MESSAGE_INVALID', /^prompt/],
    ['an empty prompt', { prompt: '' }, 400, 'ERR_KV_MESSAGE_INVALID', /at least one token/],
    ['ids above 255', { prompt: [1, 256] }, 400, 'ERR_KV_MESSAGE_INVALID', /0 to 255/],
    ['max_tokens 0', { prompt: 'a', max_tokens: 0 }, 400, 'ERR_KV_MESSAGE_INVALID', /^max_tokens/],
    ['max_tokens text', { prompt: 'a', max_tokens: '1' }, 400, 'ERR_KV_MESSAGE_INVALID', /max_tok/],
    [
      'kv_transfer_params that are no object',
      { prompt: 'a', kv_transfer_params: [1] },
      400,
      'ERR_KV_MESSAGE_INVALID',
      /^kv_transfer_params/,
    ],
    ['a too long sequence', { prompt: 'a'.repeat(500) }, 400, 'ERR_KV_LIMIT', /512/],
    ['an unknown model', { prompt: 'a', model: 'other' }, 404, 'model_not_found', /use "tiny"/],
  ]
  for (const [name, body, status, code, message] of refused) {
    it(`refuses ${name}`, async () => {
      const error = await errorOf(await post(engine, body))
      expect(error).toMatchObject({ status, code })
      expect(error.message).toMatch(message)
      expect(error.type).toBe(status === 404 ? 'not_found_error' : 'invalid_request_error')
    })
  }

  it('refuses handoffs beyond the bound', async () => {
    const params = { filler: 'x'.repeat(1_048_576) }
    const error = await errorOf(await post(engine, { prompt: 'a', kv_transfer_params: params }))
    expect(error).toMatchObject({ status: 400, code: 'ERR_KV_LIMIT' })
  })

  it('refuses bodies that are no JSON, or too large', async () => {
    const send = (body: string, type = 'application/json') =>
      fetch(`${engine.url}/v1/completions`, {
        method: 'POST',
        headers: { 'content-type': type },
        body,
      })
    expect(await errorOf(await send('{"prompt":'))).toMatchObject({
      status: 400,
      code: 'ERR_KV_MESSAGE_INVALID',
    })
    const large = await errorOf(await send(JSON.stringify({ prompt: 'a'.repeat(4_194_304) })))
    expect(large).toMatchObject({ status: 413, code: 'ERR_KV_LIMIT' })
    expect(large.message).toContain('4194304 bytes')
    const form = await errorOf(await send('a=b', 'application/x-www-form-urlencoded'))
    expect(form).toMatchObject({ status: 415, code: 'ERR_KV_MESSAGE_INVALID' })
    expect(form.message).toContain('use content-type: application/json')
  })

  it('refuses request ids that it could not use', async () => {
    for (const id of ['with space', 'x'.repeat(129), 'colon:']) {
      const response = await fetch(`${engine.url}/v1/completions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'x-request-id': id },
        body: JSON.stringify({ prompt: 'a' }),
      })
      expect(await errorOf(response)).toMatchObject({ status: 400, code: 'ERR_KV_MESSAGE_INVALID' })
    }
  })
})

describe('a stream', () => {
  const events = (text: string): string[] =>
    text
      .split('\n\n')
      .filter((event) => event !== '')
      .map((event) => event.replace(/^data: /, ''))

  it('has one chunk per token, one with the reason, and the usage when asked for', async () => {
    const body = { prompt: 'stream me', max_tokens: 6 }
    const whole = (await (await post(engine, body)).json()) as { choices: { text: string }[] }
    const response = await post(engine, {
      ...body,
      stream: true,
      stream_options: { include_usage: true },
    })
    expect(response.headers.get('content-type')).toBe('text/event-stream; charset=utf-8')
    const received = events(await response.text())
    expect(received.at(-1)).toBe('[DONE]')
    const chunks = received.slice(0, -1).map((event) => JSON.parse(event) as { choices: object[] })
    const texts = chunks.map(({ choices: [choice] }) => (choice as { text?: string })?.text ?? '')
    expect(texts.join('')).toBe(whole.choices[0]?.text)
    expect(chunks).toHaveLength(8)
    expect(texts.slice(0, 6).every((text) => text.length === 1)).toBe(true)
    expect(chunks[5]).not.toHaveProperty('kvferry')
    expect(chunks[6]).toMatchObject({
      choices: [{ text: '', finish_reason: 'length' }],
      kvferry: { engineId: 'e0' },
    })
    expect(chunks[7]).toMatchObject({ choices: [], usage: { completion_tokens: 6 } })
    expect(new Set(chunks.map((chunk) => (chunk as { id?: string }).id)).size).toBe(1)
  })

  it('says without asking neither usage nor timings', async () => {
    const response = await fetch(`${engine.url}/v1/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ prompt: 'a', max_tokens: 1, stream: true }),
    })
    const text = await response.text()
    expect(text).not.toContain('usage')
    expect(text).not.toContain('kvferry')
    expect(events(text)).toHaveLength(3)
  })

  it('is not begun for a request that is refused', async () => {
    const error = await errorOf(await post(engine, { prompt: 'a', n: 2, stream: true }))
    expect(error).toMatchObject({ status: 400, code: 'ERR_KV_UNSUPPORTED' })
  })
})
