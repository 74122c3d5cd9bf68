/** What the client takes from one answer beside its tokens. */
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, expect, it } from 'vitest'
import { createSystemClock } from '@kvferry/runtime'
import { Pool } from 'undici'
import { sendRequest, type RequestRecord } from '../src/compare/load-client.ts'

let server: Server | null = null
let pool: Pool | null = null

afterEach(async () => {
  await pool?.destroy()
  server?.closeAllConnections()
  server?.close()
})

const timings = (engineId: string | null): string =>
  JSON.stringify({ router: {}, prefill: engineId && { engineId } })

/** Streams two tokens; `late` comes after them. */
async function answerWith(early: string, late: string | null): Promise<RequestRecord> {
  server = createServer((request, response) => {
    request.resume()
    const trailer = late === null ? {} : { trailer: 'x-kvferry-timings' }
    response.writeHead(200, { 'x-kvferry-timings': early, ...trailer })
    const event = { choices: [{ text: 'ab', finish_reason: 'length' }] }
    response.write(`data: ${JSON.stringify(event)}\n\n`)
    if (late !== null) response.addTrailers({ 'x-kvferry-timings': late })
    response.end('data: [DONE]\n\n')
  })
  await new Promise<void>((resolve) => server?.listen(0, '127.0.0.1', resolve))
  pool = new Pool(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  const planned = { index: 0, phase: 'measured', atMs: 0, prompt: 'x', outputTokens: 2 } as const
  const clock = createSystemClock()
  return sendRequest({ ...planned, isStream: true }, clock.now(), {
    pool,
    model: 'm',
    basePath: '',
    idPrefix: 'test',
    tokens: 'bytes',
    requestDeadlineMs: 60_000,
    clock,
    signal: new AbortController().signal,
  })
}

it('takes measurements from the header, and from the trailer where P was late', async () => {
  const early = await answerWith(timings('p0'), null)
  expect(early).toMatchObject({
    error: null,
    outputTokens: 2,
    routed: { prefill: { engineId: 'p0' } },
  })
  await pool?.destroy()
  server?.close()
  const late = await answerWith(timings(null), timings('p1'))
  expect(late).toMatchObject({ error: null, routed: { prefill: { engineId: 'p1' } } })
})
