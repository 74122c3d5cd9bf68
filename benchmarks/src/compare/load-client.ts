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
  readonly error: string | null
  readonly decode: EngineTimings | null
  readonly routed: RoutedTimings | null
}

interface CompletionAnswer {
  readonly choices?: readonly { readonly text?: string; readonly finish_reason?: string | null }[]
  readonly kvferry?: EngineTimings
  readonly error?: { readonly message?: string; readonly code?: string }
}

interface Reply {
  text: string
  tokenAtMs: number[]
  lastTokenAtMs: number
  finishReason: string | null
  decode: EngineTimings | null
}

/** The router reports its own and P's times in a response header. */
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

async function readStream(body: AsyncIterable<Uint8Array>, clock: Clock): Promise<Reply> {
  const parser = createSseParser()
  const reply: Reply = {
    text: '',
    tokenAtMs: [],
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
      // One byte is one token; tokens of one event arrived together.
      for (let i = 0; i < text.length; i++) reply.tokenAtMs.push(now)
      if (text !== '') reply.lastTokenAtMs = now
      reply.text += text
      if (choice?.finish_reason) reply.finishReason = choice.finish_reason
      if (event.kvferry) reply.decode = event.kvferry
    }
  }
  if (!isDone) throw new Error('stream ended without [DONE]')
  return reply
}

async function readWhole(body: AsyncIterable<Uint8Array>, clock: Clock): Promise<Reply> {
  const answer = JSON.parse(await readText(body, limits.responseSizeBytesMax)) as CompletionAnswer
  const now = clock.now()
  const choice = answer.choices?.[0]
  return {
    text: choice?.text ?? '',
    tokenAtMs: [now],
    lastTokenAtMs: now,
    finishReason: choice?.finish_reason ?? null,
    decode: answer.kvferry ?? null,
  }
}

export interface SendContext {
  readonly pool: Pool
  readonly model: string
  /** Prefix of X-Request-Id; the planned index follows. */
  readonly idPrefix: string
  readonly clock: Clock
  readonly signal: AbortSignal
}

async function exchange(
  planned: PlannedRequest,
  context: SendContext,
): Promise<Reply & { routed: RoutedTimings | null }> {
  const answer = await context.pool.request({
    method: 'POST',
    path: '/v1/completions',
    headers: {
      'content-type': 'application/json',
      'x-request-id': `${context.idPrefix}-${planned.index}`,
      'x-kvferry-timings': '1',
    },
    body: JSON.stringify({
      model: context.model,
      prompt: planned.prompt,
      max_tokens: planned.outputTokens,
      temperature: 0,
      stream: planned.isStream,
    }),
    signal: AbortSignal.any([context.signal, AbortSignal.timeout(limits.requestDeadlineMs)]),
  })
  if (answer.statusCode !== 200) {
    throw new Error(
      errorText(answer.statusCode, await readText(answer.body, limits.responseSizeBytesMax)),
    )
  }
  const reply = await (planned.isStream
    ? readStream(answer.body, context.clock)
    : readWhole(answer.body, context.clock))
  return { ...reply, routed: parseRoutedTimings(answer.headers['x-kvferry-timings']) }
}

/** Resolves always: what went wrong is in `error`. */
export async function sendRequest(
  planned: PlannedRequest,
  scheduledAtMs: number,
  context: SendContext,
): Promise<RequestRecord> {
  const sentAtMs = context.clock.now()
  const base = { planned, scheduledAtMs, sentAtMs }
  try {
    const { text, tokenAtMs, lastTokenAtMs, finishReason, decode, routed } = await exchange(
      planned,
      context,
    )
    const isShort = text.length !== planned.outputTokens
    const error =
      isShort || finishReason === null
        ? `got ${text.length} of ${planned.outputTokens} tokens, finish_reason ${finishReason}`
        : null
    return { ...base, tokenAtMs, lastTokenAtMs, text, error, decode, routed }
  } catch (error) {
    const message = error instanceof Error ? `${error.name}: ${error.message}` : String(error)
    const nothing = { tokenAtMs: [], lastTokenAtMs: null, text: '', decode: null, routed: null }
    return { ...base, ...nothing, error: message }
  }
}
