/** A client that leaves: whatever runs for it is aborted, and nothing new is started. */
import { once } from 'node:events'
import { describe, expect, it } from 'vitest'
import type { RouterConfig } from '../src/index.ts'
import { handoff, sendJson } from './support/fake-engine.ts'
import {
  eventually,
  loopTurns,
  metric,
  open,
  post,
  prompt,
  setup,
} from './support/router-fixture.ts'

const gone = 'kv_router_requests_total{outcome="client-gone"}'

describe('client disconnect', () => {
  it('while P runs: P is aborted and D is never asked', async () => {
    const { router, p, d } = await setup({ prefill: () => {} })
    const asked = p.nextRequest()
    const request = open(router.url, prompt)
    const { aborted } = await asked
    request.hangUp()
    await aborted
    await eventually(async () => (await metric(router, gone)) === 1)
    expect(d.received).toEqual([])
  })

  /** The whole answer but its last byte: the client leaves while it is being read. */
  async function leaveInAnswer(config: Partial<RouterConfig> = {}) {
    let finish = () => {}
    const routed = await setup({
      config,
      prefill: (_request, response) => {
        const text = JSON.stringify({ kv_transfer_params: handoff })
        response.writeHead(200, { 'content-type': 'application/json' })
        response.write(text.slice(0, -1))
        finish = () => void response.end(text.slice(-1))
      },
      decode: (_request, response) => sendJson(response, 202, {}),
    })
    const asked = routed.p.nextRequest()
    const request = open(routed.router.url, prompt)
    const { aborted } = await asked
    // The router has the head: it would be aborted otherwise.
    await loopTurns()
    request.hangUp()
    return { ...routed, aborted, finish }
  }

  it('between the legs: the rest of P’s answer is read for its handoff, which is given back', async () => {
    const { router, d, finish } = await leaveInAnswer()
    await loopTurns()
    finish()
    await eventually(async () => (await metric(router, gone)) === 1)
    await eventually(() => d.received.length === 1)
    expect(d.received[0]).toMatchObject({
      path: '/kvferry/v1/release',
      body: { kv_transfer_params: handoff },
    })
  })

  it('between the legs: an answer of P that does not go on is not waited for, and starts nothing', async () => {
    const { router, d, aborted } = await leaveInAnswer({ deadlines: { pollMs: 50 } })
    await aborted
    await eventually(async () => (await metric(router, gone)) === 1)
    expect(d.received).toEqual([])
  })

  it('before D’s first byte: D is aborted', async () => {
    for (const stream of [true, false]) {
      const { router, d } = await setup({ decode: () => {} })
      const asked = d.nextRequest()
      const request = open(router.url, { ...prompt, stream })
      const { aborted } = await asked
      request.hangUp()
      await aborted
      await eventually(async () => (await metric(router, gone)) === 1)
    }
  })

  it('in mid-stream: D is aborted', async () => {
    const { router, d } = await setup({
      decode: (_request, response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' })
        response.write('data: 1\n\n')
      },
    })
    const request = open(router.url, { ...prompt, stream: true })
    const head = await request.head
    await once(head, 'data')
    head.on('error', () => {})
    request.hangUp()
    await d.received[0]!.aborted
    await eventually(async () => (await metric(router, gone)) === 1)
    expect(await metric(router, 'kv_router_streams_active')).toBe(0)
  })

  it('leaves other requests alone', async () => {
    let calls = 0
    const { router } = await setup({
      decode: (_request, response) => {
        if (++calls > 1) sendJson(response, 200, { id: 'second' })
      },
    })
    const first = open(router.url, prompt)
    await eventually(() => calls === 1)
    first.hangUp()
    expect((await post(router.url, prompt)).text).toBe('{"id":"second"}')
  })
})
