/**
 * Concurrent dispatch when something goes wrong: the leg that is left is ended, a request is counted once,
 * and a second try meets under a new transfer id.
 */
import { describe, expect, it } from 'vitest'
import { sendJson, type Behaviour } from './support/fake-engine.ts'
import {
  consumer,
  decodedAnswer,
  decodedFrom,
  held,
  openStream,
  producer,
  pushedAnswer,
  setupPush,
  transferIdOf,
} from './support/push-pair.ts'
import { errorOf, eventually, get, metric, open, post, prompt } from './support/router-fixture.ts'
import type { RunningRouter } from '../src/index.ts'

const silent: Behaviour = () => {}
const busy =
  (status: number): Behaviour =>
  (_request, response) => {
    response.setHeader('retry-after', '7')
    sendJson(response, status, { error: { message: 'busy', code: 'ERR_KV_LIMIT' } })
  }
const rarely = { poll: { upMs: 60_000 } }
const requests = (router: RunningRouter, outcome: string) =>
  metric(router, `kv_router_requests_total{outcome="${outcome}"}`)

/** Everything that was counted, so that nothing is counted twice. */
async function requestCount(router: RunningRouter): Promise<number> {
  const { text } = await get(`${router.url}/metrics`)
  return text
    .split('\n')
    .filter((line) => line.startsWith('kv_router_requests_total{'))
    .reduce((sum, line) => sum + Number(line.split(' ')[1]), 0)
}

describe('P fails before D’s first byte', () => {
  it.each([429, 503])('busy (%i): both are asked again under a new id', async (status) => {
    const prefills = [await producer(busy(status)), await producer(pushedAnswer, 'p1')]
    const { router, d } = await setupPush({ prefills, decode: decodedFrom('p1') })
    prefills[0]!.behaviour = async (request, response) => {
      await eventually(() => d.received.length === 1)
      return busy(status)(request, response)
    }
    expect((await post(router.url, prompt)).status).toBe(200)
    await d.received[0]!.aborted
    const ids = prefills.map(({ received }) => transferIdOf(received[0]!))
    expect(ids[0]).not.toBe(ids[1])
    expect(d.received.map(transferIdOf)).toEqual(ids)
    expect(await metric(router, 'kv_router_retries_total{leg="prefill"}')).toBe(1)
    expect(await requestCount(router)).toBe(1)
  })

  it('not reachable: another P, and out of rotation at once', async () => {
    const prefills = [await producer(pushedAnswer), await producer(pushedAnswer, 'p1')]
    const { router } = await setupPush({ prefills, decode: decodedFrom('p1'), config: rarely })
    await prefills[0]!.kill()
    expect((await post(router.url, prompt)).status).toBe(200)
    expect(prefills[1]!.received).toHaveLength(1)
    expect((await get(`${router.url}/ready`)).text).toContain('not reachable')
  })

  it('not reachable, and no other: 503, D is aborted', async () => {
    const { router, p, d } = await setupPush({ decode: silent, config: rarely })
    await p.kill()
    const answer = await post(router.url, { ...prompt, stream: true })
    expect(answer.status).toBe(503)
    expect(errorOf(answer)).toMatchObject({ code: 'ERR_KV_PEER_UNAVAILABLE' })
    for (const { aborted } of d.received) await aborted
    expect(await requests(router, 'unavailable')).toBe(1)
  })

  it('busy, and no other: its answer is the client’s', async () => {
    const { router, d } = await setupPush({ prefill: busy(429), decode: silent })
    const answer = await post(router.url, prompt)
    expect(answer.status).toBe(429)
    expect(answer.headers['retry-after']).toBe('7')
    for (const { aborted } of d.received) await aborted
    expect(await metric(router, 'kv_router_retries_total{leg="prefill"}')).toBe(0)
  })

  it.each([
    ['refuses', 400, 400, 'client-error'],
    ['fails', 500, 502, 'prefill-failed'],
  ])('%s: the client is told, D is aborted', async (_, from, to, outcome) => {
    const { router, d } = await setupPush({
      prefill: (_request, response) => sendJson(response, from, { error: { message: 'no room' } }),
      decode: silent,
    })
    const answer = await post(router.url, { ...prompt, stream: true })
    expect(answer.status).toBe(to)
    expect(errorOf(answer).message).toContain('no room')
    for (const { aborted } of d.received) await aborted
    expect(await requests(router, outcome)).toBe(1)
    expect(await requestCount(router)).toBe(1)
    const other = 'kv_router_upstream_errors_total{leg="decode",code="ERR_KV_CLOSED"}'
    expect(await metric(router, other)).toBe(0)
  })

  it('breaks: 502, repeated nowhere', async () => {
    const decode = held()
    const prefills = [
      await producer(async (_request, response) => {
        await eventually(() => decode.open.length === 1)
        response.destroy()
      }),
      await producer(pushedAnswer, 'p1'),
    ]
    const { router, d } = await setupPush({ prefills, decode: decode.behaviour })
    expect((await post(router.url, prompt)).status).toBe(502)
    await d.received[0]!.aborted
    expect(prefills[1]!.received).toEqual([])
    expect(await requests(router, 'prefill-failed')).toBe(1)
  })

  it('hangs: 504 at its deadline, both are aborted', async () => {
    const config = { deadlines: { prefillAnswerMs: 60 } }
    const { router, p, d } = await setupPush({ prefill: silent, decode: silent, config })
    const answer = await post(router.url, prompt)
    expect(answer.status).toBe(504)
    await p.received[0]!.aborted
    await d.received[0]!.aborted
    expect(await requests(router, 'deadline')).toBe(1)
  })
})

describe('P fails after D’s first byte', () => {
  it.each(['fails', 'breaks', 'hangs'])('%s: D has its KV and goes on', async (how) => {
    const prefill = held()
    const decode = held()
    const { router, p } = await setupPush({
      prefill: prefill.behaviour,
      decode: decode.behaviour,
      config: { deadlines: { prefillAnswerMs: how === 'hangs' ? 300 : 60_000 } },
    })
    const request = open(router.url, { ...prompt, stream: true })
    await eventually(() => prefill.open.length === 1 && decode.open.length === 1)
    openStream(decode.open[0]!.response)
    await request.head
    const { response } = prefill.open[0]!
    if (how === 'fails') sendJson(response, 500, {})
    if (how === 'breaks') response.destroy()
    if (how === 'hangs') await p.received[0]!.aborted
    const code = how === 'hangs' ? 'ERR_KV_DEADLINE' : 'ERR_KV_PEER_UNAVAILABLE'
    const counted = `kv_router_upstream_errors_total{leg="prefill",code="${code}"}`
    await eventually(async () => (await metric(router, counted)) === 1)
    decode.open[0]!.response.end('data: [DONE]\n\n')
    const answer = await request.read()
    expect(answer.text).toBe('data: 1\n\ndata: [DONE]\n\n')
    expect(await requests(router, 'ok')).toBe(1)
    expect(await requestCount(router)).toBe(1)
  })
})

describe('D fails', () => {
  it.each([429, 503])('busy (%i): both are asked again under a new id', async (status) => {
    const decodes = [await consumer(busy(status)), await consumer(decodedAnswer, 'd1')]
    const { router, p } = await setupPush({ decodes })
    p.behaviour = (request, response) =>
      p.received.length === 2 ? pushedAnswer(request, response) : undefined
    decodes[0]!.behaviour = async (request, response) => {
      await eventually(() => p.received.length === 1)
      return busy(status)(request, response)
    }
    expect((await post(router.url, prompt)).status).toBe(200)
    expect(decodes.map(({ received }) => received.length)).toEqual([1, 1])
    await p.received[0]!.aborted
    const ids = decodes.map(({ received }) => transferIdOf(received[0]!))
    expect(ids[0]).not.toBe(ids[1])
    expect(p.received.map(transferIdOf)).toEqual(ids)
    expect(await metric(router, 'kv_router_retries_total{leg="decode"}')).toBe(1)
    expect(await requestCount(router)).toBe(1)
  })

  it('not reachable: another D', async () => {
    const decodes = [await consumer(decodedAnswer), await consumer(decodedAnswer, 'd1')]
    const { router } = await setupPush({ decodes, config: rarely })
    await decodes[0]!.kill()
    expect((await post(router.url, prompt)).status).toBe(200)
  })

  it('busy, all of them: two are asked', async () => {
    const decodes = [
      await consumer(busy(429)),
      await consumer(busy(429), 'd1'),
      await consumer(busy(429), 'd2'),
    ]
    const { router } = await setupPush({ decodes })
    expect((await post(router.url, prompt)).status).toBe(429)
    expect(await metric(router, 'kv_router_retries_total{leg="decode"}')).toBe(1)
  })

  it('P and D in turn: each leg has one other engine', async () => {
    const prefills = [await producer(busy(503)), await producer(pushedAnswer, 'p1')]
    const decodes = [await consumer(decodedFrom('p1')), await consumer(busy(503), 'd1')]
    const { router } = await setupPush({ prefills, decodes })
    expect((await post(router.url, prompt)).status).toBe(200)
    expect(await metric(router, 'kv_router_retries_total{leg="prefill"}')).toBe(1)
    expect(await metric(router, 'kv_router_retries_total{leg="decode"}')).toBe(1)
    const ids = [...prefills, ...decodes].flatMap(({ received }) => received.map(transferIdOf))
    expect(new Set(ids).size).toBe(3)
  })

  it.each([
    ['refuses', 422, 422, 'client-error'],
    ['fails', 500, 502, 'decode-failed'],
  ])('%s: the client is told, P is aborted', async (_, from, to, outcome) => {
    const { router, p } = await setupPush({
      prefill: silent,
      decode: (_request, response) => sendJson(response, from, { error: { message: 'no' } }),
    })
    expect((await post(router.url, prompt)).status).toBe(to)
    for (const { aborted } of p.received) await aborted
    expect(await requests(router, outcome)).toBe(1)
    expect(await requestCount(router)).toBe(1)
  })

  it('breaks before its first byte: 502, P is aborted, nothing is repeated', async () => {
    const prefill = held()
    const { router, p, d } = await setupPush({
      prefill: prefill.behaviour,
      decode: async (_request, response) => {
        await eventually(() => prefill.open.length === 1)
        response.destroy()
      },
    })
    expect((await post(router.url, prompt)).status).toBe(502)
    await p.received[0]!.aborted
    expect(d.received).toHaveLength(1)
  })

  it('breaks in mid-stream: an error event, and P, which still runs, is aborted', async () => {
    const prefill = held()
    const { router, p } = await setupPush({
      prefill: prefill.behaviour,
      decode: async (_request, response) => {
        await eventually(() => prefill.open.length === 1)
        response.writeHead(200, { 'content-type': 'text/event-stream' })
        response.write('data: 1\n\n', () => response.destroy())
      },
    })
    const answer = await post(router.url, { ...prompt, stream: true })
    expect(answer.text).toContain('"code":"ERR_KV_PEER_UNAVAILABLE"')
    await p.received[0]!.aborted
    expect(await requests(router, 'truncated')).toBe(1)
  })

  it('hangs after P has answered: 504 at its own deadline, which begins then', async () => {
    const prefill = held()
    const config = { deadlines: { decodeFirstByteMs: 60 } }
    const { router, d } = await setupPush({
      prefill: prefill.behaviour,
      decode: silent,
      config,
    })
    const answer = open(router.url, { ...prompt, stream: true }).read()
    await eventually(() => prefill.open.length === 1 && d.received.length === 1)
    let isOver = false
    void answer.then(() => (isOver = true))
    await new Promise((resolve) => setTimeout(resolve, 120))
    expect(isOver).toBe(false)
    await pushedAnswer(prefill.open[0]!.request, prefill.open[0]!.response)
    expect((await answer).status).toBe(504)
    await d.received[0]!.aborted
  })
})
