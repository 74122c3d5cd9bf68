/**
 * Concurrent dispatch when the client leaves or the router closes, at any moment: no leg is left, and no
 * blocks that nobody will ask for.
 */
import { once } from 'node:events'
import { describe, expect, it } from 'vitest'
import { sendJson } from './support/fake-engine.ts'
import {
  decodedAnswer,
  held,
  openStream,
  pushedAnswer,
  pushedParams,
  setupPush,
  transferIdOf,
} from './support/push-pair.ts'
import {
  errorOf,
  eventually,
  loopTurns,
  metric,
  open,
  post,
  prompt,
} from './support/router-fixture.ts'

const gone = 'kv_router_requests_total{outcome="client-gone"}'

describe('the client leaves', () => {
  it.each([true, false])(
    'before either answered: both are aborted (stream: %s)',
    async (stream) => {
      const [prefill, decode] = [held(), held()]
      const { router, p, d } = await setupPush({
        prefill: prefill.behaviour,
        decode: decode.behaviour,
      })
      const request = open(router.url, { ...prompt, stream })
      await eventually(() => prefill.open.length === 1 && decode.open.length === 1)
      request.hangUp()
      await p.received[0]!.aborted
      await d.received[0]!.aborted
      await eventually(async () => (await metric(router, gone)) === 1)
      expect([p, d].map(({ received }) => received.length)).toEqual([1, 1])
    },
  )

  it('when P has answered: D is aborted', async () => {
    const decode = held()
    const { router, p, d } = await setupPush({ decode: decode.behaviour })
    const request = open(router.url, prompt)
    await eventually(() => p.received.length === 1 && decode.open.length === 1)
    request.hangUp()
    await d.received[0]!.aborted
    await eventually(async () => (await metric(router, gone)) === 1)
  })

  it('in mid-stream while P runs: both are aborted', async () => {
    const [prefill, decode] = [held(), held()]
    const { router, p, d } = await setupPush({
      prefill: prefill.behaviour,
      decode: decode.behaviour,
    })
    const request = open(router.url, { ...prompt, stream: true })
    await eventually(() => prefill.open.length === 1 && decode.open.length === 1)
    openStream(decode.open[0]!.response)
    const head = await request.head
    await once(head, 'data')
    head.on('error', () => {})
    request.hangUp()
    await p.received[0]!.aborted
    await d.received[0]!.aborted
    await eventually(async () => (await metric(router, gone)) === 1)
    expect(await metric(router, 'kv_router_streams_active')).toBe(0)
  })
})

describe('the router closes', () => {
  it('when a late P has answered', async () => {
    const prefill = held()
    const { router } = await setupPush({ prefill: prefill.behaviour })
    expect((await post(router.url, prompt)).status).toBe(200)
    await eventually(() => prefill.open.length === 1)
    let isClosed = false
    const closed = router.close().then(() => (isClosed = true))
    await new Promise((resolve) => setTimeout(resolve, 50))
    expect(isClosed).toBe(false)
    await pushedAnswer(prefill.open[0]!.request, prefill.open[0]!.response)
    await closed
  })

  it('at the drain deadline, whoever still runs', async () => {
    const [prefill, decode] = [held(), held()]
    const { router, p, d } = await setupPush({
      prefill: prefill.behaviour,
      decode: decode.behaviour,
      config: { deadlines: { drainMs: 60 } },
    })
    const late = open(router.url, prompt)
    await eventually(() => prefill.open.length === 1 && decode.open.length === 1)
    await decodedAnswer(decode.open[0]!.request, decode.open[0]!.response)
    expect((await late.read()).status).toBe(200)
    const running = open(router.url, prompt)
    await eventually(() => prefill.open.length === 2 && decode.open.length === 2)
    const [answer] = await Promise.all([running.read(), router.close()])
    expect(answer.status).toBe(503)
    expect(errorOf(answer).code).toBe('ERR_KV_CLOSED')
    await Promise.all(p.received.map(({ aborted }) => aborted))
    await d.received[1]!.aborted
  })
})

describe('blocks that P keeps for a D that took nothing', () => {
  const releasePath = '/kvferry/v1/release'

  it('are given back under the transfer id', async () => {
    const decode = held()
    const { router, p, d } = await setupPush({ decode: decode.behaviour })
    const answer = open(router.url, prompt).read()
    await eventually(() => decode.open.length === 1 && p.received.length === 1)
    // P's answer is in the router's hands before D refuses.
    await loopTurns()
    d.behaviour = (_request, response) => sendJson(response, 202, {})
    sendJson(decode.open[0]!.response, 400, { error: { message: 'no' } })
    expect((await answer).status).toBe(400)
    await eventually(() => d.received.length === 2)
    expect(d.received[1]!.path).toBe(releasePath)
    expect(d.received[1]!.body).toEqual({
      kv_transfer_params: { ...pushedParams, transfer_id: transferIdOf(p.received[0]!) },
    })
  })

  it('are given back under what D was told, where P hands nothing over', async () => {
    const decode = held()
    const { router, d } = await setupPush({
      prefill: (_request, response) =>
        sendJson(response, 200, { choices: [{ text: 'x' }], kv_transfer_params: null }),
      decode: decode.behaviour,
    })
    const answer = open(router.url, prompt).read()
    await eventually(() => decode.open.length === 1)
    await loopTurns()
    const { body } = decode.open[0]!.request
    d.behaviour = (_request, response) => sendJson(response, 202, {})
    sendJson(decode.open[0]!.response, 400, { error: { message: 'no' } })
    expect((await answer).status).toBe(400)
    await eventually(() => d.received.length === 2)
    const { kv_transfer_params: told } = body as Record<string, unknown>
    expect(told).toMatchObject({ do_remote_prefill: true, transfer_id: expect.any(String) })
    expect(d.received[1]!.body).toEqual({ kv_transfer_params: told })
  })

  it('are left to a D that had the request', async () => {
    const { router, d } = await setupPush({
      decode: (_request, response) => void setTimeout(() => response.destroy(), 30),
    })
    expect((await post(router.url, prompt)).status).toBe(502)
    await router.close()
    expect(d.received).toHaveLength(1)
  })
})
