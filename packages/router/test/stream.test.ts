/** Pass-through of streams: bytes, boundaries, backpressure, and how a stream that breaks ends. */
import type { ServerResponse } from 'node:http'
import { describe, expect, it } from 'vitest'
import { room, sse } from './support/fake-engine.ts'
import { eventually, get, metric, open, post, prompt, setup } from './support/router-fixture.ts'

const streaming = { ...prompt, stream: true }
const lastEvent = (text: string): unknown => {
  const events = text.split('\n\n').filter((event) => event !== '')
  return JSON.parse(events.at(-1)!.slice('data: '.length))
}

describe('streams', () => {
  it('passes every byte, also of slow, tiny and odd chunks', async () => {
    const text =
      'data: {"text":"zwölf 🛳"}\r\n\r\n: ping\n\nevent: x\ndata: {"n":2}\n\ndata: [DONE]\n\n'
    const bytes = Buffer.from(text)
    const { router } = await setup({
      decode: async (_request, response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' })
        for (const byte of bytes) {
          response.write(Buffer.from([byte]))
          await new Promise((resolve) => setImmediate(resolve))
        }
        response.end()
      },
    })
    const answer = await post(router.url, streaming)
    expect(Buffer.from(answer.text).equals(bytes)).toBe(true)
    expect(answer.isBroken).toBe(false)
  })

  it('passes each event on before the next one exists', async () => {
    let response!: ServerResponse
    const { router } = await setup({
      decode: (_request, opened) => {
        response = opened
        response.writeHead(200, { 'content-type': 'text/event-stream' })
        response.write('data: 1\n\n')
      },
    })
    const head = await open(router.url, streaming).head
    const chunks = (head as AsyncIterable<Buffer>)[Symbol.asyncIterator]()
    const next = async () => String((await chunks.next()).value)
    expect(await next()).toBe('data: 1\n\n')
    response.write('data: 2\n\n')
    expect(await next()).toBe('data: 2\n\n')
    expect(await metric(router, 'kv_router_streams_active')).toBe(1)
    response.end('data: [DONE]\n\n')
    expect(await next()).toBe('data: [DONE]\n\n')
    expect((await chunks.next()).done).toBe(true)
    await eventually(async () => (await metric(router, 'kv_router_streams_active')) === 0)
  })

  it('serves 64 streams at once, each with its own bytes', async () => {
    const { router } = await setup({
      decode: (request, response) => {
        const parts = Array.from({ length: 20 }, (_, i) => `data: ${request.body['user']} ${i}\n\n`)
        return sse([...parts, 'data: [DONE]\n\n'])(request, response)
      },
    })
    const answers = await Promise.all(
      Array.from({ length: 64 }, (_, i) => post(router.url, { ...streaming, user: `u${i}` })),
    )
    for (const [i, { status, text }] of answers.entries()) {
      expect(status).toBe(200)
      const expected = Array.from({ length: 20 }, (_, j) => `data: u${i} ${j}\n\n`).join('')
      expect(text).toBe(`${expected}data: [DONE]\n\n`)
    }
    expect(await metric(router, 'kv_router_requests_total{outcome="ok"}')).toBe(64)
  })

  it('holds D back when the client does not read', async () => {
    let written = 0
    let isBlocked = false
    const event = `data: ${'x'.repeat(65_536)}\n\n`
    const { router } = await setup({
      decode: async (_request, response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' })
        while (written < 1_000 && !response.destroyed) {
          written++
          isBlocked = !response.write(event)
          if (isBlocked) await room(response)
        }
      },
    })
    const request = open(router.url, streaming)
    const head = await request.head
    head.pause()
    // Still after 20 round trips through the same event loop: it is held back, not just slow.
    let stillCount = 0
    await eventually(async () => {
      const before = written
      await get(`${router.url}/health`)
      stillCount = isBlocked && written === before ? stillCount + 1 : 0
      return stillCount === 20
    })
    // Socket buffers hold some MiB; without backpressure all 64 MiB would have gone.
    expect(written).toBeLessThan(500)
    request.hangUp()
  })

  it('ends a stream that D breaks off with an error event, never inside an event', async () => {
    const { router } = await setup({
      decode: (_request, response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' })
        response.write('data: 1\n\ndata: {"half"', () => response.destroy())
      },
    })
    const answer = await post(router.url, streaming)
    expect(answer.isBroken).toBe(false)
    expect(answer.text.startsWith('data: 1\n\ndata: {"error"')).toBe(true)
    expect(answer.text).not.toContain('[DONE]')
    expect(lastEvent(answer.text)).toMatchObject({
      error: { type: 'server_error', code: 'ERR_KV_PEER_UNAVAILABLE' },
    })
    expect(await metric(router, 'kv_router_requests_total{outcome="truncated"}')).toBe(1)
    const errors = 'kv_router_upstream_errors_total{leg="decode",code="ERR_KV_PEER_UNAVAILABLE"}'
    expect(await metric(router, errors)).toBe(1)
  })

  it('does not take a stream without [DONE] for a whole one', async () => {
    const { router } = await setup({ decode: sse(['data: 1\n\n', 'data: 2']) })
    const answer = await post(router.url, streaming)
    expect(answer.text.startsWith('data: 1\n\ndata: 2\n\ndata: {"error"')).toBe(true)
    expect(lastEvent(answer.text)).toMatchObject({ error: { code: 'ERR_KV_PEER_UNAVAILABLE' } })
  })

  it('leaves D’s own error event the last word', async () => {
    const parts = ['data: 1\n\n', 'data: {"error":{"message":"lost","code":"ERR_KV_DEADLINE"}}\n\n']
    const { router } = await setup({ decode: sse(parts) })
    expect((await post(router.url, streaming)).text).toBe(parts.join(''))
    expect(await metric(router, 'kv_router_requests_total{outcome="truncated"}')).toBe(1)
  })

  it('ends a silent stream at the idle deadline', async () => {
    const { router, d } = await setup({
      decode: (_request, response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' })
        response.write('data: 1\n\n')
      },
      config: { deadlines: { chunkIdleMs: 40 } },
    })
    const answer = await post(router.url, streaming)
    expect(lastEvent(answer.text)).toMatchObject({ error: { code: 'ERR_KV_DEADLINE' } })
    await d.received[0]!.aborted
  })

  it('ends a stream at the total deadline, however busy it is', async () => {
    const { router, d } = await setup({
      decode: async (_request, response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' })
        while (!response.destroyed) {
          response.write('data: 1\n\n')
          await new Promise((resolve) => setTimeout(resolve, 5))
        }
      },
      config: { deadlines: { totalMs: 120 } },
    })
    const answer = await post(router.url, streaming)
    expect(lastEvent(answer.text)).toMatchObject({ error: { code: 'ERR_KV_DEADLINE' } })
    await d.received[0]!.aborted
  })

  it('cuts off a client that stops reading', async () => {
    const { router, d } = await setup({
      decode: async (_request, response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' })
        while (!response.destroyed) {
          const hasRoom = response.write(`data: ${'x'.repeat(65_536)}\n\n`)
          if (!hasRoom) await room(response)
        }
      },
      config: { deadlines: { clientStallMs: 50 } },
    })
    const head = await open(router.url, streaming).head
    head.on('error', () => {})
    head.pause()
    await d.received[0]!.aborted
    await eventually(
      async () => (await metric(router, 'kv_router_requests_total{outcome="client-gone"}')) === 1,
    )
  })
})
