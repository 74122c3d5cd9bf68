/** One request through both legs: what each engine sees, and what the client gets. */
import { describe, expect, it } from 'vitest'
import { decodeAnswer, handoff, prefillAnswer, sendJson, sse } from './support/fake-engine.ts'
import { engine, get, metric, post, prompt, setup } from './support/router-fixture.ts'

describe('straight path', () => {
  it('sends exact bodies to both engines and the answer of D to the client', async () => {
    const { router, p, d } = await setup()
    const body = { ...prompt, temperature: 0.5, seed: 7, user: 'ü', max_completion_tokens: 8 }
    const answer = await post(router.url, body, { authorization: 'Bearer key', cookie: 'a=b' })
    expect(answer.status).toBe(200)
    expect(JSON.parse(answer.text)).toEqual({ id: 'cmpl-1', choices: [{ text: 'hello' }] })
    expect(p.received.map(({ body }) => body)).toEqual([
      {
        ...body,
        max_tokens: 1,
        max_completion_tokens: 1,
        stream: false,
        kv_transfer_params: { do_remote_decode: true, do_remote_prefill: false },
      },
    ])
    expect(d.received.map(({ body }) => body)).toEqual([{ ...body, kv_transfer_params: handoff }])
    for (const { headers } of [p.received[0]!, d.received[0]!]) {
      expect(headers['authorization']).toBe('Bearer key')
      expect(headers['cookie']).toBeUndefined()
      expect(headers['x-request-id']).toBe(answer.headers['x-request-id'])
    }
  })

  it('takes streaming fields from P but leaves them to D', async () => {
    const stream = sse(['data: {"a":1}\n\n', 'data: [DONE]\n\n'])
    const { router, p, d } = await setup({ decode: stream })
    const body = { ...prompt, stream: true, stream_options: { include_usage: true }, min_tokens: 4 }
    const answer = await post(router.url, body)
    expect(answer.text).toBe('data: {"a":1}\n\ndata: [DONE]\n\n')
    expect(answer.headers['content-type']).toBe('text/event-stream; charset=utf-8')
    expect(p.received[0]!.body).toEqual({
      ...prompt,
      max_tokens: 1,
      stream: false,
      kv_transfer_params: { do_remote_decode: true, do_remote_prefill: false },
    })
    expect(d.received[0]!.body).toEqual({ ...body, kv_transfer_params: handoff })
  })

  it('serves chat completions on the same path of the engines', async () => {
    const { router, p, d } = await setup()
    const body = { model: 'tiny', messages: [{ role: 'user', content: 'hi' }] }
    const answer = await post(router.url, body, {}, '/v1/chat/completions')
    expect(answer.status).toBe(200)
    expect([p, d].map(({ received }) => received[0]!.path)).toEqual([
      '/v1/chat/completions',
      '/v1/chat/completions',
    ])
  })

  it('asks D only after P has answered', async () => {
    const order: string[] = []
    const { router } = await setup({
      prefill: async (_request, response) => {
        order.push('P asked')
        await new Promise((resolve) => setTimeout(resolve, 20))
        order.push('P answers')
        sendJson(response, 200, { kv_transfer_params: handoff })
      },
      decode: (request, response) => {
        order.push('D asked')
        return decodeAnswer(request, response)
      },
    })
    await post(router.url, prompt)
    expect(order).toEqual(['P asked', 'P answers', 'D asked'])
  })

  it('lets D compute the prompt when P gives no handoff, and says so', async () => {
    const { router, d, log } = await setup({
      prefill: (_request, response) => sendJson(response, 200, { choices: [] }),
    })
    expect((await post(router.url, prompt)).status).toBe(200)
    expect(d.received[0]!.body).toEqual(prompt)
    expect(await metric(router, 'kv_router_recomputed_total')).toBe(1)
    expect(log.some(({ message }) => message.includes('no handoff'))).toBe(true)
  })

  it('gives measurements of both sides when they are asked for', async () => {
    const { router, p, d } = await setup()
    const answer = await post(router.url, prompt, { 'x-kvferry-timings': '1' })
    const timings = JSON.parse(String(answer.headers['x-kvferry-timings'])) as {
      router: Record<string, number>
      prefill: unknown
    }
    const { receivedAtMs, prefillSentAtMs, prefillAnsweredAtMs, decodeSentAtMs } = timings.router
    const moments = [receivedAtMs, prefillSentAtMs, prefillAnsweredAtMs, decodeSentAtMs]
    expect(moments).toEqual(moments.toSorted((a, b) => a! - b!))
    expect(Math.abs(receivedAtMs! - Number(process.hrtime.bigint()) / 1e6)).toBeLessThan(10_000)
    expect(timings.prefill).toEqual({ engineId: 'p0', queuedAtMs: 1 })
    for (const { received } of [p, d]) expect(received[0]!.headers['x-kvferry-timings']).toBe('1')
    const without = await post(router.url, prompt)
    expect(without.headers['x-kvferry-timings']).toBeUndefined()
    expect(p.received[1]!.headers['x-kvferry-timings']).toBeUndefined()
  })

  it('takes turns among engines', async () => {
    const prefills = [await engine('producer', prefillAnswer)]
    const decodes = [
      await engine('consumer', decodeAnswer),
      await engine('consumer', decodeAnswer, { engineId: 'd1' }),
    ]
    const { router } = await setup({ prefills, decodes })
    for (let i = 0; i < 4; i++) await post(router.url, prompt)
    expect(decodes.map(({ received }) => received.length)).toEqual([2, 2])
  })

  it('answers health, readiness, models and metrics', async () => {
    const { router } = await setup()
    await post(router.url, prompt)
    expect((await get(`${router.url}/health`)).status).toBe(200)
    expect((await get(`${router.url}/ready`)).text).toBe('{"ready":true,"problems":[]}')
    expect((await get(`${router.url}/v1/models`)).text).toContain('"id":"tiny"')
    expect((await get(`${router.url}/nothing`)).status).toBe(404)
    expect(await metric(router, 'kv_router_requests_total{outcome="ok"}')).toBe(1)
    expect(await metric(router, 'kv_router_added_latency_seconds_count')).toBe(1)
    expect(await metric(router, 'kv_router_engines_up{leg="prefill"}')).toBe(1)
  })
})
