/** What a client may send: refused clearly before any engine is asked, or passed on. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { routerLimits } from '../src/index.ts'
import { parseCompletionRequest, prefillBody } from '../src/completion-request.ts'
import { RouterError } from '../src/router-error.ts'
import { sendJson } from './support/fake-engine.ts'
import { errorOf, get, metric, post, prompt, setup } from './support/router-fixture.ts'

describe('validation', () => {
  it.each([
    ['no model', { prompt: 'x' }, 'ERR_KV_MESSAGE_INVALID', 'you must provide a model parameter'],
    ['no prompt', { model: 'm' }, 'ERR_KV_MESSAGE_INVALID', 'prompt'],
    ['a number as prompt', { model: 'm', prompt: 4 }, 'ERR_KV_MESSAGE_INVALID', 'prompt'],
    ['stream that is text', { ...prompt, stream: 'yes' }, 'ERR_KV_MESSAGE_INVALID', 'stream'],
    ['max_tokens 0', { ...prompt, max_tokens: 0 }, 'ERR_KV_MESSAGE_INVALID', 'max_tokens'],
    ['n = 2 (RT-48)', { ...prompt, n: 2 }, 'ERR_KV_UNSUPPORTED', 'n: only 1'],
    ['n = 0', { ...prompt, n: 0 }, 'ERR_KV_UNSUPPORTED', 'n: only 1'],
    ['best_of = 3', { ...prompt, best_of: 3 }, 'ERR_KV_UNSUPPORTED', 'best_of'],
    ['two prompts', { ...prompt, prompt: ['a', 'b'] }, 'ERR_KV_UNSUPPORTED', 'one request per'],
    ['a list of one', { ...prompt, prompt: ['a'] }, 'ERR_KV_UNSUPPORTED', 'one request per'],
    ['lists of ids', { ...prompt, prompt: [[1], [2]] }, 'ERR_KV_UNSUPPORTED', 'one request per'],
    ['an empty list', { ...prompt, prompt: [] }, 'ERR_KV_UNSUPPORTED', 'one request per'],
    ['a list', [1], 'ERR_KV_MESSAGE_INVALID', ''],
    ['text that is not JSON', '{"model":', 'ERR_KV_MESSAGE_INVALID', ''],
    ['nothing', '', 'ERR_KV_MESSAGE_INVALID', ''],
    ['prototype pollution', '{"__proto__":{"a":1}}', 'ERR_KV_MESSAGE_INVALID', ''],
    [
      'bottomless nesting',
      `{"model":"m","prompt":"x","a":${'['.repeat(300_000)}${']'.repeat(300_000)}}`,
      'ERR_KV_MESSAGE_INVALID',
      'nested too deeply',
    ],
  ])('refuses %s', async (_name, body, code, part) => {
    const { router, p, d } = await setup()
    const answer = await post(router.url, body)
    expect(answer.status).toBe(400)
    expect(errorOf(answer)).toMatchObject({ type: 'invalid_request_error', code })
    expect(errorOf(answer).message).toContain(part)
    expect([...p.received, ...d.received]).toEqual([])
    expect(await metric(router, 'kv_router_requests_total{outcome="client-error"}')).toBe(1)
  })

  it('refuses other content types and bodies over the limit', async () => {
    const { router, p } = await setup()
    const form = await post(router.url, 'a=b', { 'content-type': 'text/plain' })
    expect(form.status).toBe(415)
    expect(errorOf(form).type).toBe('invalid_request_error')
    expect(errorOf(form).message).toContain('use content-type: application/json')
    const large = { ...prompt, prompt: 'x'.repeat(routerLimits.requestSizeBytesMax) }
    const answer = await post(router.url, large)
    expect(answer.status).toBe(413)
    expect(errorOf(answer).code).toBe('ERR_KV_LIMIT')
    expect(errorOf(answer).message).toContain(`${routerLimits.requestSizeBytesMax} bytes`)
    expect(p.received).toEqual([])
  })

  it('passes a prompt of token ids and n = 1', async () => {
    const { router, d } = await setup()
    const body = { ...prompt, prompt: [1, 2, 3], n: 1, best_of: null }
    expect((await post(router.url, body)).status).toBe(200)
    expect(d.received[0]!.body).toMatchObject(body)
  })

  it('drops kv_transfer_params of clients, counts and logs it', async () => {
    const { router, p, d, log } = await setup()
    const forged = { do_remote_prefill: true, remote_host: 'evil', remote_block_ids: [[0]] }
    const answer = await post(router.url, { ...prompt, kv_transfer_params: forged })
    expect(answer.status).toBe(200)
    expect(JSON.stringify([p.received[0]!.body, d.received[0]!.body])).not.toContain('evil')
    expect(await metric(router, 'kv_router_client_params_dropped_total')).toBe(1)
    expect(log.filter(({ message }) => message.includes('dropped'))).toHaveLength(1)
  })

  it('drops them also where P gives nothing to put in their place', async () => {
    const { router, d } = await setup({
      prefill: (_request, response) => sendJson(response, 200, {}),
    })
    await post(router.url, { ...prompt, kv_transfer_params: { do_remote_prefill: true } })
    expect(d.received[0]!.body).toEqual(prompt)
  })

  it('takes over a well-formed request id and no other', async () => {
    const { router, p, d } = await setup()
    const taken = await post(router.url, prompt, { 'x-request-id': 'My.req_1-2' })
    expect(taken.headers['x-request-id']).toBe('My.req_1-2')
    for (const { received } of [p, d]) {
      expect(received[0]!.headers['x-request-id']).toBe('My.req_1-2')
    }
    const bad = ['a:b', 'a,b', 'x'.repeat(129), ' ', 'a b', ['a', 'b']]
    for (const id of bad) {
      const answer = await post(router.url, prompt, { 'x-request-id': id })
      expect(answer.headers['x-request-id']).toMatch(/^[0-9a-f]{32}$/)
      expect(p.received.at(-1)!.headers['x-request-id']).toBe(answer.headers['x-request-id'])
    }
  })

  it('lets no client header through to the engines', async () => {
    const { router, p, d } = await setup()
    await post(router.url, prompt, {
      'x-forwarded-for': '10.0.0.1',
      'x-kvferry-timings': 'yes',
      'x-kvferry-anything': '1',
      'accept-encoding': 'gzip',
      'transfer-encoding': 'chunked',
    })
    for (const { received } of [p, d]) {
      const names = Object.keys(received[0]!.headers).toSorted()
      expect(names).toEqual([
        'connection',
        'content-length',
        'content-type',
        'host',
        'x-request-id',
      ])
    }
  })

  it('never answers anything but a typed refusal to arbitrary JSON, and goes on serving', async () => {
    const { router, p } = await setup()
    await fc.assert(
      fc.asyncProperty(fc.jsonValue(), async (value) => {
        const answer = await post(router.url, JSON.stringify(value))
        expect(answer.status).toBe(400)
        expect(errorOf(answer).type).toBe('invalid_request_error')
      }),
      { numRuns: 100 },
    )
    expect(p.received).toEqual([])
    expect((await get(`${router.url}/health`)).status).toBe(200)
  })

  it('keeps every field that it does not own', () => {
    const own = ['stream_options', 'min_tokens', 'max_tokens', 'max_completion_tokens', 'stream']
    const key = fc.string().filter((name) => name !== '__proto__' && !own.includes(name))
    fc.assert(
      fc.property(fc.dictionary(key, fc.jsonValue()), (extra) => {
        const body = { ...extra, model: 'm', prompt: 'x', n: 1, best_of: 1 }
        const sent = JSON.parse(
          prefillBody(parseCompletionRequest('/v1/completions', body)),
        ) as Record<string, unknown>
        const { kv_transfer_params: params, stream, max_tokens: maxTokens, ...kept } = sent
        expect({ params, stream, maxTokens }).toEqual({
          params: { do_remote_decode: true, do_remote_prefill: false },
          stream: false,
          maxTokens: 1,
        })
        const expected: Record<string, unknown> = { ...body }
        delete expected['kv_transfer_params']
        expect(kept).toEqual(JSON.parse(JSON.stringify(expected)))
      }),
    )
  })

  it('throws nothing but RouterError, whatever it is given', () => {
    fc.assert(
      fc.property(fc.anything(), (value) => {
        try {
          parseCompletionRequest('/v1/chat/completions', value)
        } catch (error) {
          expect(error).toBeInstanceOf(RouterError)
        }
      }),
    )
  })
})
