/** Engines that refuse, break, hang or answer nonsense: a typed error within the deadline, never a hang. */
import { describe, expect, it } from 'vitest'
import { decodeAnswer, handoff, prefillAnswer, sendJson } from './support/fake-engine.ts'
import { engine, errorOf, get, metric, post, prompt, setup } from './support/router-fixture.ts'

describe('prefill fails', () => {
  it('refuses the connection: another P is asked, once', async () => {
    const prefills = [
      await engine('producer', prefillAnswer),
      await engine('producer', prefillAnswer, { engineId: 'p1' }),
    ]
    const { router, d } = await setup({ prefills, config: { poll: { upMs: 60_000 } } })
    await prefills[0]!.kill()
    expect((await post(router.url, prompt)).status).toBe(200)
    expect(prefills[1]!.received.length).toBe(1)
    expect(d.received.length).toBe(1)
    expect(await metric(router, 'kv_router_retries_total{leg="prefill"}')).toBe(1)
  })

  it('refuses the connection and there is no other: 503, D is not asked', async () => {
    const { router, p, d } = await setup({ config: { poll: { upMs: 60_000 } } })
    await p.kill()
    const answer = await post(router.url, prompt)
    expect(answer.status).toBe(503)
    expect(errorOf(answer)).toMatchObject({ type: 'server_error', code: 'ERR_KV_PEER_UNAVAILABLE' })
    expect(errorOf(answer).message).toContain(p.url)
    expect(d.received).toEqual([])
    // At once, before any poll: the next request must not try it again.
    expect((await get(`${router.url}/ready`)).status).toBe(503)
  })

  it('dies while it computes: 502, not repeated elsewhere', async () => {
    const prefills = [
      await engine('producer', (_request, response) => void response.destroy()),
      await engine('producer', prefillAnswer, { engineId: 'p1' }),
    ]
    const { router, d } = await setup({ prefills })
    const answer = await post(router.url, prompt)
    expect(answer.status).toBe(502)
    expect(errorOf(answer).code).toBe('ERR_KV_PEER_UNAVAILABLE')
    expect(prefills[1]!.received).toEqual([])
    expect(d.received).toEqual([])
  })

  it('hangs, before or inside its answer: 504 at the deadline, P is aborted', async () => {
    for (const isAnswering of [false, true]) {
      const { router, p } = await setup({
        prefill: (_request, response) => {
          if (isAnswering) response.writeHead(200).write('{')
        },
        config: { deadlines: { prefillAnswerMs: 40 } },
      })
      const answer = await post(router.url, prompt)
      expect(answer.status).toBe(504)
      expect(errorOf(answer).code).toBe('ERR_KV_DEADLINE')
      await p.received[0]!.aborted
      const errors = 'kv_router_upstream_errors_total{leg="prefill",code="ERR_KV_DEADLINE"}'
      expect(await metric(router, errors)).toBe(1)
    }
  })

  it('refuses the client’s request: its 4xx is the client’s answer', async () => {
    const refusal = { error: { message: 'too long', type: 'invalid_request_error', code: 'x' } }
    const { router, d } = await setup({
      prefill: (_request, response) => sendJson(response, 400, refusal),
    })
    const answer = await post(router.url, prompt)
    expect(answer.status).toBe(400)
    expect(JSON.parse(answer.text)).toEqual(refusal)
    expect(d.received).toEqual([])
    expect(await metric(router, 'kv_router_requests_total{outcome="client-error"}')).toBe(1)
  })

  it.each([
    [500, 502, 'ERR_KV_LIMIT'],
    [503, 503, 'ERR_KV_LIMIT'],
    [504, 504, 'ERR_KV_LIMIT'],
    [302, 502, 'ERR_KV_LIMIT'],
  ])('answers %i: the client gets %i and the engine’s code', async (from, to, code) => {
    const { router } = await setup({
      prefill: (_request, response) =>
        sendJson(response, from, { error: { message: 'no room', type: 'server_error', code } }),
    })
    const answer = await post(router.url, prompt)
    expect(answer.status).toBe(to)
    expect(errorOf(answer).code).toBe(code)
    expect(errorOf(answer).message).toContain('no room')
  })

  it.each([
    ['not JSON', 'nonsense'],
    ['not an object', '[1]'],
    ['params that are a list', '{"kv_transfer_params":[1]}'],
    ['params that are text', '{"kv_transfer_params":"x"}'],
    ['params over the limit', `{"kv_transfer_params":{"x":"${'y'.repeat(1_048_577)}"}}`],
    [
      'params without end',
      `{"kv_transfer_params":{"x":${'['.repeat(300_000)}${']'.repeat(300_000)}}}`,
    ],
  ])('answers with %s: 502, D is not asked', async (_name, text) => {
    const { router, d } = await setup({
      prefill: (_request, response) => void response.writeHead(200).end(text),
    })
    const answer = await post(router.url, prompt)
    expect(answer.status).toBe(502)
    expect(errorOf(answer).code).toBe('ERR_KV_HANDOFF_INVALID')
    expect(d.received).toEqual([])
  })

  it('answers without end: 502 at the size limit, P is aborted', async () => {
    const { router, p } = await setup({
      prefill: (_request, response) => {
        response.writeHead(200)
        const write = () => {
          while (!response.destroyed && response.write('x'.repeat(65_536)));
        }
        response.on('drain', write)
        write()
      },
    })
    const answer = await post(router.url, prompt)
    expect(answer.status).toBe(502)
    expect(errorOf(answer).code).toBe('ERR_KV_LIMIT')
    await p.received[0]!.aborted
  })
})

describe('decode fails', () => {
  it('refuses the connection: another D is asked with the same handoff', async () => {
    const decodes = [
      await engine('consumer', decodeAnswer),
      await engine('consumer', decodeAnswer, { engineId: 'd1' }),
    ]
    const { router, p } = await setup({ decodes, config: { poll: { upMs: 60_000 } } })
    await decodes[0]!.kill()
    expect((await post(router.url, prompt)).status).toBe(200)
    expect(p.received.length).toBe(1)
    expect(decodes[1]!.received[0]!.body['kv_transfer_params']).toEqual(handoff)
  })

  it('refuses the connection and there is no other: 503', async () => {
    const { router, d } = await setup({ config: { poll: { upMs: 60_000 } } })
    await d.kill()
    const answer = await post(router.url, { ...prompt, stream: true })
    expect(answer.status).toBe(503)
    expect(errorOf(answer).code).toBe('ERR_KV_PEER_UNAVAILABLE')
  })

  it.each([true, false])('dies before its first byte (stream: %s): 502, once', async (stream) => {
    const decodes = [
      await engine('consumer', (_request, response) => {
        if (stream) response.writeHead(200, { 'content-type': 'text/event-stream' })
        response.destroy()
      }),
      await engine('consumer', decodeAnswer, { engineId: 'd1' }),
    ]
    const { router } = await setup({ decodes })
    const answer = await post(router.url, { ...prompt, stream })
    expect(answer.status).toBe(502)
    expect(errorOf(answer).code).toBe('ERR_KV_PEER_UNAVAILABLE')
    expect(decodes[1]!.received).toEqual([])
  })

  it('dies inside an answer that is not streamed: 502', async () => {
    const { router } = await setup({
      decode: (_request, response) => {
        response.writeHead(200, { 'content-type': 'application/json', 'content-length': 100 })
        response.write('{"id":', () => response.destroy())
      },
    })
    expect((await post(router.url, prompt)).status).toBe(502)
  })

  it.each([
    [true, { decodeFirstByteMs: 40 }],
    [false, { totalMs: 80 }],
  ])('hangs (stream: %s): 504, D is aborted', async (stream, deadlines) => {
    const { router, d } = await setup({ decode: () => {}, config: { deadlines } })
    const answer = await post(router.url, { ...prompt, stream })
    expect(answer.status).toBe(504)
    expect(errorOf(answer).code).toBe('ERR_KV_DEADLINE')
    await d.received[0]!.aborted
  })

  it('refuses a streamed request: its 4xx is the client’s answer', async () => {
    const { router } = await setup({
      decode: (_request, response) => sendJson(response, 422, { error: { message: 'no' } }),
    })
    const answer = await post(router.url, { ...prompt, stream: true })
    expect(answer.status).toBe(422)
    expect(answer.text).toBe('{"error":{"message":"no"}}')
  })

  it('answers 5xx: 502 with the engine’s code', async () => {
    const { router } = await setup({
      decode: (_request, response) =>
        sendJson(response, 500, { error: { message: 'lost', code: 'ERR_KV_TRANSFER_FAILED' } }),
    })
    const answer = await post(router.url, { ...prompt, stream: true })
    expect(answer.status).toBe(502)
    expect(errorOf(answer).code).toBe('ERR_KV_TRANSFER_FAILED')
  })
})
