/**
 * Engines of the router's measurement: a prefill engine that answers at once and a decode engine that writes
 * a token whenever its time has come, stamped just before. They compute nothing, so that what is measured is
 * the way of a token. Run by router-engines-child.ts in a process of its own, and by tests.
 */
import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { micro } from './settings.ts'

const model = 'stream'
const { intervalMs } = micro.router

const describePeer = (role: 'producer' | 'consumer') => ({
  connector: 'pull',
  transferMode: 'pull',
  engineId: role,
  incarnation: role,
  role,
  blockTokens: 16,
  model,
  wireVersion: 1,
})

async function readBody(request: IncomingMessage): Promise<{ max_tokens: number }> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  return JSON.parse(Buffer.concat(chunks).toString()) as { max_tokens: number }
}

function answer(response: ServerResponse, body: unknown): void {
  response.writeHead(200, { 'content-type': 'application/json' })
  response.end(JSON.stringify(body))
}

/** As large as a real one, and the moment at which it was written. */
const tokenEvent = (): string =>
  `data: ${JSON.stringify({
    id: 'cmpl-0123456789abcdef0123456789abcdef',
    object: 'text_completion',
    created: 1_800_000_000,
    model,
    choices: [{ index: 0, text: ' token', logprobs: null, finish_reason: null }],
    sentAtNs: process.hrtime.bigint().toString(),
  })}\n\n`

async function stream(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { max_tokens: tokenCount } = await readBody(request)
  const startedAt = performance.now()
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  for (let i = 0; i < tokenCount && !response.destroyed; i++) {
    const waitMs = startedAt + i * intervalMs - performance.now()
    if (waitMs > 0) await sleep(waitMs)
    response.write(tokenEvent())
  }
  response.end('data: [DONE]\n\n')
}

async function prefill(request: IncomingMessage, response: ServerResponse): Promise<void> {
  await readBody(request)
  answer(response, { choices: [{ text: 'x' }], kv_transfer_params: { remote_engine_id: 'p0' } })
}

async function listen(
  role: 'producer' | 'consumer',
  complete: (request: IncomingMessage, response: ServerResponse) => Promise<void>,
): Promise<{ readonly server: Server; readonly url: string }> {
  const server = createServer((request, response) => {
    if (request.method === 'GET') answer(response, describePeer(role))
    else complete(request, response).catch(() => response.destroy())
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return { server, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }
}

export interface StreamingEngines {
  readonly prefillUrl: string
  readonly decodeUrl: string
  close(): void
}

export async function startStreamingEngines(): Promise<StreamingEngines> {
  const [p, d] = [await listen('producer', prefill), await listen('consumer', stream)]
  return {
    prefillUrl: p.url,
    decodeUrl: d.url,
    close() {
      for (const { server } of [p, d]) {
        server.close()
        server.closeAllConnections()
      }
    },
  }
}
