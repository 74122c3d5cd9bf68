/** A client that leaves: whatever runs for it is aborted, and nothing new is started. */
import { once } from 'node:events'
import { describe, expect, it } from 'vitest'
import { handoff, sendJson } from './support/fake-engine.ts'
import { eventually, metric, open, post, prompt, setup } from './support/router-fixture.ts'

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

  it('between the legs: an answer of P that comes too late starts nothing', async () => {
    const { router, p, d } = await setup({
      prefill: (_request, response) => {
        // The whole answer but its last byte: the client leaves while it is being read.
        const text = JSON.stringify({ kv_transfer_params: handoff })
        response.writeHead(200, { 'content-type': 'application/json' })
        response.write(text.slice(0, -1))
      },
    })
    const asked = p.nextRequest()
    const request = open(router.url, prompt)
    const { aborted } = await asked
    request.hangUp()
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
