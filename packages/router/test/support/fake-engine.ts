/**
 * A small engine for tests: records what it was asked, answers as the test says, and can die in every way
 * that matters (refuse connections, break them, hang). Plain node:http, port 0, loopback.
 */
import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface Received {
  readonly path: string
  readonly headers: IncomingHttpHeaders
  readonly body: Record<string, unknown>
  /** Resolves when the router closed the connection before the answer was finished. */
  readonly aborted: Promise<void>
}

export type Behaviour = (request: Received, response: ServerResponse) => void | Promise<void>

export interface FakeEngine {
  readonly url: string
  readonly port: number
  readonly received: Received[]
  /** Resolves with the next completion request. */
  nextRequest(): Promise<Received>
  behaviour: Behaviour
  /** Answer of `/kvferry/v1/peer`; null = 404. */
  peer: Record<string, unknown> | null
  /** Looks (GET requests) that arrived. */
  readonly lookCount: number
  /** Their paths, in order. */
  readonly looks: string[]
  /** While on, looks get no answer. */
  stall(isOn: boolean): void
  /** Breaks every connection and stops listening. */
  kill(): Promise<void>
}

export const peerOf = (role: 'producer' | 'consumer', overrides: Record<string, unknown> = {}) => ({
  connector: 'pull',
  transferMode: 'pull',
  engineId: role === 'producer' ? 'p0' : 'd0',
  incarnation: 'first',
  role,
  sideChannel: { host: '127.0.0.1', port: 1 },
  tpSize: 1,
  ppSize: 1,
  blockTokens: 16,
  model: 'tiny',
  wireVersion: 1,
  ...overrides,
})

export const handoff = {
  do_remote_prefill: true,
  do_remote_decode: false,
  remote_engine_id: 'p0',
  remote_request_id: 'cmpl-x-0badcafe',
  remote_block_ids: [[3, 1, 2]],
  remote_host: '127.0.0.1',
  remote_port: 5600,
  tp_size: 1,
}

export function sendJson(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' })
  response.end(JSON.stringify(body))
}

export const prefillAnswer: Behaviour = (_request, response) =>
  sendJson(response, 200, {
    choices: [{ text: 'x' }],
    kv_transfer_params: handoff,
    kvferry: { engineId: 'p0', queuedAtMs: 1 },
  })

export const decodeAnswer: Behaviour = (_request, response) =>
  sendJson(response, 200, { id: 'cmpl-1', choices: [{ text: 'hello' }] })

/** Writes each part in a chunk of its own, then ends. */
export const sse =
  (parts: readonly string[]): Behaviour =>
  async (_request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' })
    for (const part of parts) {
      response.write(part)
      await new Promise((resolve) => setImmediate(resolve))
    }
    response.end()
  }

/** Resolves when more may be written, or never will. */
export async function room(response: ServerResponse): Promise<void> {
  const end = new AbortController()
  const { signal } = end
  const events = ['drain', 'close'].map((event) => once(response, event, { signal }))
  await Promise.race(events)
  end.abort()
  await Promise.allSettled(events)
}

export async function startFakeEngine(
  peer: Record<string, unknown> | null,
  behaviour: Behaviour,
  port = 0,
): Promise<FakeEngine> {
  const received: Received[] = []
  const waiting: ((request: Received) => void)[] = []
  const looks: string[] = []
  let isStalled = false
  const server = createServer((request, response) => {
    if (request.method === 'GET') {
      looks.push(request.url ?? '')
      if (isStalled) return
      if (request.url === '/kvferry/v1/peer' && engine.peer !== null) {
        sendJson(response, 200, engine.peer)
      } else if (request.url === '/health') {
        sendJson(response, 200, {})
      } else if (request.url === '/v1/models') {
        sendJson(response, 200, { object: 'list', data: [{ id: 'tiny' }] })
      } else {
        sendJson(response, 404, {})
      }
      return
    }
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const entry: Received = {
        path: request.url ?? '',
        headers: request.headers,
        body: JSON.parse(Buffer.concat(chunks).toString()) as Record<string, unknown>,
        aborted: new Promise((resolve) =>
          response.once('close', () => {
            if (!response.writableFinished) resolve()
          }),
        ),
      }
      received.push(entry)
      waiting.shift()?.(entry)
      void engine.behaviour(entry, response)
    })
  })
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve))
  const bound = (server.address() as AddressInfo).port
  const engine: FakeEngine = {
    url: `http://127.0.0.1:${bound}`,
    port: bound,
    received,
    nextRequest: () => new Promise((resolve) => waiting.push(resolve)),
    behaviour,
    peer,
    get lookCount() {
      return looks.length
    },
    looks,
    stall(isOn) {
      isStalled = isOn
    },
    kill: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
  return engine
}
