/**
 * HTTP to one engine: a bounded pool of keep-alive connections (undici), a few apart for looks at it
 * (so that an engine full of requests can still be seen to live) and for what no client waits for, and the only
 * place that reads an answer into memory. Called by the legs, the poller and the model list. Decides nothing: no retries,
 * and no deadlines but the one for connecting and the one of small GETs; the callers' signals carry the rest.
 */
import { Pool, buildConnector, type Dispatcher } from 'undici'
import type { Clock } from '@kvferry/connector-api'
import { tellStart } from './call-start.ts'
import { deadlineReached, RouterError, type Leg } from './router-error.ts'
import { routerLimits } from './limits.ts'
import { createResettingConnection, type ConnectionOptions } from './resetting-connection.ts'

export interface EngineCall {
  readonly method: 'GET' | 'POST'
  readonly path: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
  readonly signal: AbortSignal
  /** When the engine may begin to see it. */
  readonly onStart?: () => void
}

export type EngineAnswer = Dispatcher.ResponseData

export class EngineClient {
  readonly url: string
  readonly #leg: Leg
  readonly #clock: Clock
  readonly #pool: Pool
  readonly #looks: Pool
  readonly #asides: Pool

  constructor(
    url: string,
    options: { readonly leg: Leg; readonly clock: Clock; readonly connectMs: number },
  ) {
    this.url = url
    this.#leg = options.leg
    this.#clock = options.clock
    const shared: ConnectionOptions = {
      pipelining: 1,
      connect: buildConnector({ timeout: options.connectMs }),
      // Node and uvicorn close idle connections after 5 s; ours must go first, or a request may meet
      // a connection that is just being closed.
      keepAliveTimeout: 4_000,
      // undici's own timers are coarse (about 1 s); the callers' signals end these waits.
      headersTimeout: 0,
      bodyTimeout: 0,
    }
    const isPrefill = options.leg === 'prefill'
    this.#pool = new Pool(url, {
      ...shared,
      connections: routerLimits.connectionsPerEngineMax,
      // A decode engine keeps nothing for its answer, and has to read what it was asked, to end the handoff in it.
      ...(isPrefill ? { factory: (of: URL) => createResettingConnection(of, shared) } : {}),
    })
    this.#looks = new Pool(url, { ...shared, connections: 2 })
    const asides = routerLimits.releaseConnectionsPerEngineMax
    this.#asides = new Pool(url, { ...shared, connections: asides })
  }

  /** Resolves with the head of the answer; the caller must consume or destroy the body. */
  send(call: EngineCall): Promise<EngineAnswer> {
    return this.#request(this.#pool, call)
  }

  /** The same for what no client waits for: it never takes a client's connection. */
  sendAside(call: EngineCall): Promise<EngineAnswer> {
    return this.#request(this.#asides, call)
  }

  #request(pool: Pool, call: EngineCall): Promise<EngineAnswer> {
    const { onStart, signal } = call
    const via: Dispatcher = onStart === undefined ? pool : pool.compose(tellStart(signal, onStart))
    return via.request({
      method: call.method,
      path: call.path,
      headers: {
        ...call.headers,
        ...(call.body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(call.body === undefined ? {} : { body: call.body }),
      signal,
    })
  }

  /** A small GET with its own deadline, for descriptions and model lists. */
  async getText(
    path: string,
    options: { readonly deadlineMs: number; readonly signal: AbortSignal },
  ): Promise<{ readonly status: number; readonly text: string }> {
    const controller = new AbortController()
    const stop = () => controller.abort(options.signal.reason)
    const late = deadlineReached(`GET ${this.url}${path}`, options.deadlineMs)
    const timer = this.#clock.after(options.deadlineMs, () => controller.abort(late))
    options.signal.addEventListener('abort', stop, { once: true })
    if (options.signal.aborted) stop()
    try {
      const call = { method: 'GET', path, signal: controller.signal } as const
      const answer = await this.#request(this.#looks, call)
      const text = await readText(answer, routerLimits.descriptionSizeBytesMax, this.#leg)
      return { status: answer.statusCode, text }
    } finally {
      timer.stop()
      options.signal.removeEventListener('abort', stop)
    }
  }

  /** Breaks every connection; open calls fail. */
  async close(): Promise<void> {
    const pools = [this.#pool, this.#looks, this.#asides]
    await Promise.all(pools.map((pool) => pool.destroy()))
  }
}

/** The engine's own word on when to try again; null when it says none, or nothing that may be passed on. */
export function retryAfterOf({ headers }: EngineAnswer): string | null {
  const value = headers['retry-after']
  return typeof value === 'string' && /^[\x20-\x7e]{1,64}$/.test(value) ? value : null
}

/** @throws RouterError 502 ERR_KV_LIMIT when the answer is larger; whatever the connection throws. */
export async function readText(
  answer: EngineAnswer,
  sizeBytesMax: number,
  leg: Leg,
): Promise<string> {
  const chunks: Buffer[] = []
  let sizeBytes = 0
  for await (const chunk of answer.body as AsyncIterable<Buffer>) {
    sizeBytes += chunk.length
    if (sizeBytes > sizeBytesMax) {
      throw new RouterError({
        status: 502,
        code: 'ERR_KV_LIMIT',
        outcome: `${leg}-failed`,
        message: `${leg} engine: the answer is larger than ${sizeBytesMax} bytes`,
      })
    }
    chunks.push(chunk)
  }
  return Buffer.concat(chunks, sizeBytes).toString('utf8')
}
