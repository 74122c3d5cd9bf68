/**
 * Sends one planned request and records when its tokens came back. Times are taken when bytes reach
 * this process; the text is kept, because it is compared with the oracle's. Never retries: a request
 * that needed a second try has failed.
 */
import type { Clock } from '@kvferry/connector-api'
import type { EngineTimings } from '@kvferry/reference-engine'
import type { Pool } from 'undici'
import { readText } from '../lib/http.ts'
import { createSseParser } from '../lib/sse.ts'
import { limits } from '../limits.ts'
import type { PlannedRequest } from './schedule.ts'
import type { RoutedTimings } from './timings.ts'

export interface RequestRecord {
  readonly planned: PlannedRequest
  readonly scheduledAtMs: number
  /** Null when it was dropped before it could be sent. */
  readonly sentAtMs: number | null
  /** Arrival of each token; one entry for an answer that is not streamed. */
  readonly tokenAtMs: readonly number[]
  readonly lastTokenAtMs: number | null
  readonly text: string
  readonly outputTokens: number
  readonly error: string | null
  readonly decode: EngineTimings | null
  readonly routed: RoutedTimings | null
}

interface CompletionAnswer {
  readonly choices?: readonly { readonly text?: string; readonly finish_reason?: string | null }[]
  readonly usage?: { readonly completion_tokens?: number } | null
  readonly kvferry?: EngineTimings
  readonly error?: { readonly message?: string; readonly code?: string }
}

interface Reply {
  text: string
  tokenAtMs: number[]
  outputTokens: number
  lastTokenAtMs: number
  finishReason: string | null
  decode: EngineTimings | null
}

/** The router reports its own and P's times in a response header, or in a trailer where P was late. */
function parseRoutedTimings(header: string | string[] | undefined): RoutedTimings | null {
  return typeof header === 'string' ? (JSON.parse(header) as RoutedTimings) : null
}

function errorText(status: number, body: string): string {
  try {
    const { error } = JSON.parse(body) as CompletionAnswer
    return `HTTP ${status} ${error?.code ?? ''}: ${error?.message ?? body.slice(0, 200)}`
  } catch {
    return `HTTP ${status}: ${body.slice(0, 200)}`
  }
}

async function readStream(
  body: AsyncIterable<Uint8Array>,
  { clock, tokens, onFirstToken }: SendContext,
): Promise<Reply> {
  const parser = createSseParser()
  const reply: Reply = {
    text: '',
    tokenAtMs: [],
    outputTokens: 0,
    lastTokenAtMs: 0,
    finishReason: null,
    decode: null,
  }
  let size = 0
  let isDone = false
  for await (const chunk of body) {
    const now = clock.now()
    size += chunk.byteLength
    if (size > limits.responseSizeBytesMax) throw new Error('answer longer than the bound')
    for (const data of parser.push(chunk)) {
      if (data === '[DONE]') {
        isDone = true
        continue
      }
      const event = JSON.parse(data) as CompletionAnswer
      if (event.error) throw new Error(`in stream: ${event.error.code}: ${event.error.message}`)
      const choice = event.choices?.[0]
      const text = choice?.text ?? ''
      // Tokens of one event arrived together; a tokenizer's can't be told apart and count as one arrival.
      const arrivals = tokens === 'bytes' ? text.length : Math.min(1, text.length)
      if (arrivals > 0 && reply.tokenAtMs.length === 0) onFirstToken?.()
      for (let i = 0; i < arrivals; i++) reply.tokenAtMs.push(now)
      if (text !== '') reply.lastTokenAtMs = now
      reply.text += text
      if (choice?.finish_reason) reply.finishReason = choice.finish_reason
      if (event.usage) reply.outputTokens = event.usage.completion_tokens ?? 0
      if (event.kvferry) reply.decode = event.kvferry
    }
  }
  if (!isDone) throw new Error('stream ended without [DONE]')
  if (tokens === 'bytes' || reply.outputTokens === 0) reply.outputTokens = reply.tokenAtMs.length
  return reply
}

async function readWhole(
  body: AsyncIterable<Uint8Array>,
  { clock, tokens }: SendContext,
): Promise<Reply> {
  const answer = JSON.parse(await readText(body, limits.responseSizeBytesMax)) as CompletionAnswer
  const now = clock.now()
  const choice = answer.choices?.[0]
  const text = choice?.text ?? ''
  return {
    text,
    tokenAtMs: [now],
    outputTokens: tokens === 'bytes' ? text.length : (answer.usage?.completion_tokens ?? 0),
    lastTokenAtMs: now,
    finishReason: choice?.finish_reason ?? null,
    decode: answer.kvferry ?? null,
  }
}

export interface SendContext {
  readonly pool: Pool
  readonly model: string
  /** What a server's URL has before `/v1`; mostly empty. */
  readonly basePath: string
  /** Prefix of X-Request-Id; the planned index follows. */
  readonly idPrefix: string
  readonly clock: Clock
  readonly signal: AbortSignal
  readonly tokens: TokenKind
  /** Send to last byte; beyond it the request has failed. */
  readonly requestDeadlineMs: number
  /** Called once for each streamed request, when its first token is here. */
  readonly onFirstToken?: () => void
}

/**
 * `bytes`: the reference engine's, a byte of text is a token. `ids`: a server with a real tokenizer; prompts
 * are token ids (0–255, valid in any vocabulary), so that their length is what was planned.
 */
export type TokenKind = 'bytes' | 'ids'

function bodyOf(planned: PlannedRequest, { model, tokens }: SendContext): string {
  const common = { model, max_tokens: planned.outputTokens, temperature: 0 }
  if (tokens === 'bytes') {
    return JSON.stringify({ ...common, prompt: planned.prompt, stream: planned.isStream })
  }
  return JSON.stringify({
    ...common,
    prompt: [...Buffer.from(planned.prompt)],
    stream: planned.isStream,
    ...(planned.isStream ? { stream_options: { include_usage: true } } : {}),
    // The planned length is the load; where the model would have stopped is not.
    ignore_eos: true,
  })
}

async function exchange(
  planned: PlannedRequest,
  context: SendContext,
): Promise<Reply & { routed: RoutedTimings | null }> {
  const answer = await context.pool.request({
    method: 'POST',
    path: `${context.basePath}/v1/completions`,
    headers: {
      'content-type': 'application/json',
      'x-request-id': `${context.idPrefix}-${planned.index}`,
      'x-kvferry-timings': '1',
    },
    body: bodyOf(planned, context),
    signal: AbortSignal.any([context.signal, AbortSignal.timeout(context.requestDeadlineMs)]),
  })
  if (answer.statusCode !== 200) {
    throw new Error(
      errorText(answer.statusCode, await readText(answer.body, limits.responseSizeBytesMax)),
    )
  }
  const reply = await (planned.isStream
    ? readStream(answer.body, context)
    : readWhole(answer.body, context))
  const { headers, trailers } = answer
  const timings = trailers['x-kvferry-timings'] ?? headers['x-kvferry-timings']
  return { ...reply, routed: parseRoutedTimings(timings) }
}

/** What a request has that got no answer. */
export const noReply = {
  tokenAtMs: [],
  lastTokenAtMs: null,
  text: '',
  outputTokens: 0,
  decode: null,
  routed: null,
} as const satisfies Partial<RequestRecord>

/** Resolves always: what went wrong is in `error`. */
export async function sendRequest(
  planned: PlannedRequest,
  scheduledAtMs: number,
  context: SendContext,
): Promise<RequestRecord> {
  const sentAtMs = context.clock.now()
  const base = { planned, scheduledAtMs, sentAtMs }
  try {
    const { finishReason, ...reply } = await exchange(planned, context)
    const isShort = reply.outputTokens !== planned.outputTokens
    const error =
      isShort || finishReason === null
        ? `got ${reply.outputTokens} of ${planned.outputTokens} tokens, finish_reason ${finishReason}`
        : null
    return { ...base, ...reply, error }
  } catch (error) {
    const message = error instanceof Error ? `${error.name}: ${error.message}` : String(error)
    return { ...base, ...noReply, error: message }
  }
}
