/** Both legs at once: what each engine sees, who may be first, and who P is when it doesn't say. */
import { describe, expect, it } from 'vitest'
import { decodeAnswer, handoff, prefillAnswer, sendJson } from './support/fake-engine.ts'
import {
  consumer,
  decodedAnswer,
  held,
  openStream,
  producer,
  push,
  pushedAnswer,
  pushedParams,
  setupPush,
  transferIdOf,
} from './support/push-pair.ts'
import {
  engine,
  eventually,
  get,
  loopTurns,
  metric,
  open,
  post,
  prompt,
} from './support/router-fixture.ts'

const ok = 'kv_router_requests_total{outcome="ok"}'

describe('concurrent dispatch', () => {
  it('tells D who P is, and both the same new transfer id', async () => {
    const { router, p, d } = await setupPush()
    const body = { ...prompt, temperature: 0.5, min_tokens: 2 }
    const answer = await post(router.url, body, { authorization: 'Bearer key' })
    expect(answer.status).toBe(200)
    const id = transferIdOf(p.received[0]!)
    expect(id).toMatch(/^xfer-[0-9a-f]{32}$/)
    expect(p.received.map(({ body }) => body)).toEqual([
      {
        ...prompt,
        temperature: 0.5,
        max_tokens: 1,
        stream: false,
        kv_transfer_params: { do_remote_decode: true, do_remote_prefill: false, transfer_id: id },
      },
    ])
    expect(d.received.map(({ body }) => body)).toEqual([
      {
        ...body,
        kv_transfer_params: {
          do_remote_prefill: true,
          do_remote_decode: false,
          remote_engine_id: 'p0',
          remote_host: '127.0.0.1',
          remote_port: 1,
          tp_size: 1,
          pp_size: 1,
          remote_request_id: answer.headers['x-request-id'],
          transfer_id: id,
        },
      },
    ])
    for (const { headers } of [p.received[0]!, d.received[0]!]) {
      expect(headers['x-request-id']).toBe(answer.headers['x-request-id'])
      expect(headers['authorization']).toBe('Bearer key')
    }
    await post(router.url, prompt)
    expect(transferIdOf(p.received[1]!)).not.toBe(id)
    expect(await metric(router, ok)).toBe(2)
    expect(await metric(router, 'kv_router_added_latency_seconds_count')).toBe(2)
  })

  it.each([true, false])('P answers first (stream: %s)', async (stream) => {
    const [prefill, decode] = [held(), held()]
    const { router } = await setupPush({ prefill: prefill.behaviour, decode: decode.behaviour })
    const answer = open(router.url, { ...prompt, stream }).read()
    await eventually(() => prefill.open.length === 1 && decode.open.length === 1)
    await pushedAnswer(prefill.open[0]!.request, prefill.open[0]!.response)
    await get(`${router.url}/health`)
    const { request, response } = decode.open[0]!
    if (stream) {
      openStream(response)
      response.end('data: [DONE]\n\n')
      expect((await answer).text).toBe('data: 1\n\ndata: [DONE]\n\n')
    } else {
      await decodedAnswer(request, response)
      expect(JSON.parse((await answer).text)).toEqual({
        id: 'cmpl-1',
        choices: [{ text: 'hello' }],
      })
    }
    expect(await metric(router, ok)).toBe(1)
  })

  it.each([true, false])(
    'D answers first, and P’s answer is taken later (stream: %s)',
    async (stream) => {
      const prefill = held()
      const { router } = await setupPush({
        prefill: prefill.behaviour,
        decode: (request, response) => {
          if (!stream) return decodedAnswer(request, response)
          openStream(response)
          response.end('data: [DONE]\n\n')
        },
      })
      expect((await post(router.url, { ...prompt, stream })).status).toBe(200)
      expect(await metric(router, ok)).toBe(1)
      await eventually(() => prefill.open.length === 1)
      const { request, response } = prefill.open[0]!
      const isFinished = new Promise<boolean>((resolve) =>
        response.once('close', () => resolve(response.writableFinished)),
      )
      await pushedAnswer(request, response)
      expect(await isFinished).toBe(true)
      expect(await metric(router, ok)).toBe(1)
    },
  )

  it('asks engines of any connector at once that say that they meet by themselves', async () => {
    const theirs = { connector: 'theirs', transferMode: 'teleport', dispatch: 'concurrent' }
    const prefill = held()
    const prefills = [await engine('producer', prefill.behaviour, theirs)]
    const decodes = [await engine('consumer', decodedAnswer, theirs)]
    const { router, d } = await setupPush({ prefills, decodes })
    // D has answered, and P has not.
    expect((await post(router.url, prompt)).status).toBe(200)
    await eventually(() => prefill.open.length === 1)
    const { request, response } = prefill.open[0]!
    expect(transferIdOf(request)).toBe(transferIdOf(d.received[0]!))
    await pushedAnswer(request, response)
  })

  it('asks engines one after the other that say so, whatever moves their bytes', async () => {
    const inTurn = { ...push, dispatch: 'sequential' }
    const prefills = [await engine('producer', prefillAnswer, inTurn)]
    const decodes = [await engine('consumer', decodeAnswer, inTurn)]
    const { router, d } = await setupPush({ prefills, decodes })
    expect((await post(router.url, prompt)).status).toBe(200)
    expect(d.received[0]!.body['kv_transfer_params']).toEqual(handoff)
  })

  it('keeps what the engines tell each other from the client', async () => {
    const params = { remote_engine_id: 'd0', remote_block_ids: [[1]] }
    for (const stream of [true, false]) {
      const { router } = await setupPush({
        decode: (_request, response) => {
          if (!stream) return sendJson(response, 200, { id: 1, kv_transfer_params: params })
          const last = JSON.stringify({ id: 2, kv_transfer_params: params })
          openStream(response, `data: 1\n\ndata: ${last}\n\n`)
          response.end('data: [DONE]\n\n')
        },
      })
      const { text } = await post(router.url, { ...prompt, stream })
      expect(text).toBe(stream ? 'data: 1\n\ndata: {"id":2}\n\ndata: [DONE]\n\n' : '{"id":1}')
    }
  })

  it('gives measurements of both sides when they are asked for', async () => {
    const prefill = held()
    const { router, d } = await setupPush({ prefill: prefill.behaviour })
    d.behaviour = async (request, response) => {
      await eventually(() => prefill.open.length === 1)
      await pushedAnswer(request, prefill.open[0]!.response)
      // The router has P's answer before D's.
      await loopTurns()
      await decodedAnswer(request, response)
    }
    const answer = await post(router.url, prompt, { 'x-kvferry-timings': '1' })
    const timings = JSON.parse(String(answer.headers['x-kvferry-timings'])) as {
      router: Record<string, number>
      prefill: unknown
    }
    const { receivedAtMs, prefillSentAtMs, prefillAnsweredAtMs, decodeSentAtMs } = timings.router
    expect(prefillSentAtMs).toBe(decodeSentAtMs)
    expect(prefillSentAtMs).toBeGreaterThanOrEqual(receivedAtMs!)
    expect(prefillAnsweredAtMs).toBeGreaterThanOrEqual(prefillSentAtMs!)
    expect(timings.prefill).toEqual({ engineId: 'p0' })
  })

  it('gives P’s measurements after the stream where P answered after D’s first byte', async () => {
    const [prefill, decode] = [held(), held()]
    const { router } = await setupPush({ prefill: prefill.behaviour, decode: decode.behaviour })
    const answer = open(router.url, { ...prompt, stream: true }, { 'x-kvferry-timings': '1' })
    await eventually(() => prefill.open.length === 1 && decode.open.length === 1)
    openStream(decode.open[0]!.response)
    const message = await answer.head
    await pushedAnswer(prefill.open[0]!.request, prefill.open[0]!.response)
    await eventually(() => prefill.open[0]!.response.writableFinished)
    // The router's event loop went round: P's answer has been read.
    await get(`${router.url}/health`)
    decode.open[0]!.response.end('data: [DONE]\n\n')
    await answer.read()
    expect(JSON.parse(String(message.headers['x-kvferry-timings']))).toMatchObject({
      prefill: null,
    })
    expect(JSON.parse(String(message.trailers['x-kvferry-timings']))).toMatchObject({
      prefill: { engineId: 'p0' },
    })
  })

  it('serves each P in its own way where both kinds are there', async () => {
    const prefills = [
      await engine('producer', prefillAnswer, { engineId: 'pulled' }),
      await producer(pushedAnswer, 'pushed'),
    ]
    const decodes = [
      await engine('consumer', decodeAnswer, { engineId: 'pulling' }),
      await consumer(decodedAnswer, 'waiting'),
    ]
    const { router } = await setupPush({ prefills, decodes })
    for (let count = 0; count < 4; count++) {
      expect((await post(router.url, prompt)).status).toBe(200)
    }
    const params = decodes.map(({ received }) =>
      received.map(({ body }) => body['kv_transfer_params']),
    )
    expect(params[0]).toEqual([handoff, handoff])
    expect(params[1]).toEqual([
      expect.objectContaining({ remote_engine_id: 'pushed' }),
      expect.objectContaining({ remote_engine_id: 'pushed' }),
    ])
  })
})

describe('coordinates of P', () => {
  const problems = async (url: string) => (await get(`${url}/ready`)).text

  it('that it leaves out make it unready, and the remedy is named', async () => {
    const prefills = [
      await engine('producer', pushedAnswer, { ...push, sideChannel: null, tpSize: undefined }),
    ]
    const { router, d } = await setupPush({ prefills })
    expect((await get(`${router.url}/ready`)).status).toBe(503)
    const text = await problems(router.url)
    expect(text).toContain(prefills[0]!.url)
    expect(text).toContain('--prefill-side-channel host:port')
    expect(text).toContain('--prefill-tp')
    expect(text).not.toContain('--prefill-engine-id')
    expect((await post(router.url, prompt)).status).toBe(503)
    expect(d.received).toEqual([])
  })

  it('are the operator’s where it cannot describe itself, all of them', async () => {
    const make = async (declared: object) => {
      const prefills = [await engine('producer', pushedAnswer, null)]
      const decodes = [await engine('consumer', decodedAnswer, null)]
      const prefill = [{ url: prefills[0]!.url, ...declared }]
      return setupPush({ prefills, decodes, config: { connector: 'push', prefill } })
    }
    const without = await make({})
    const text = await problems(without.router.url)
    for (const flag of ['--prefill-engine-id', '--prefill-side-channel', '--prefill-tp']) {
      expect(text).toContain(flag)
    }
    const all = { engineId: 'p0', sideChannel: '10.1.2.3:5601', tp: 2 }
    const { router, d } = await make(all)
    expect((await get(`${router.url}/ready`)).status).toBe(200)
    expect((await post(router.url, prompt)).status).toBe(200)
    expect(d.received[0]!.body['kv_transfer_params']).toMatchObject({
      remote_engine_id: 'p0',
      remote_host: '10.1.2.3',
      remote_port: 5601,
      tp_size: 2,
      pp_size: 1,
    })
  })

  it('are the operator’s place and the engine’s TP size where both say one', async () => {
    const prefills = [await producer(pushedAnswer)]
    const prefill = [{ url: prefills[0]!.url, sideChannel: '10.1.2.3:5601', tp: 8 }]
    const { router, d } = await setupPush({ prefills, config: { prefill } })
    await post(router.url, prompt)
    expect(d.received[0]!.body['kv_transfer_params']).toMatchObject({
      remote_host: '10.1.2.3',
      remote_port: 5601,
      tp_size: 1,
    })
  })

  it('of which P’s answer says otherwise end the request', async () => {
    const prefills = [
      await producer((_request, response) =>
        sendJson(response, 200, {
          kv_transfer_params: { ...pushedParams, remote_engine_id: 'elsewhere' },
        }),
      ),
    ]
    const prefill = [{ url: prefills[0]!.url, engineId: 'p0' }]
    const { router, d } = await setupPush({ prefills, decode: () => {}, config: { prefill } })
    const answer = await post(router.url, prompt)
    expect(answer.status).toBe(502)
    expect(answer.text).toContain('elsewhere')
    await d.received[0]!.aborted
  })
})
