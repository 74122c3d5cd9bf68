/**
 * `POST /v1/completions` and `/v1/chat/completions`: from the body to an answer or a stream of events. A caller
 * that disconnects aborts its request; if that has ended, the handoff in its answer has reached nobody. Stream
 * headers leave with the first token, so that a request which fails before it still gets a proper status.
 * Buffers at most one small chunk per token that a slow caller didn't read.
 */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Clock } from '@kvferry/connector-api'
import {
  describeAnswer,
  describeEndChunk,
  describeTokenChunk,
  describeUsageChunk,
  type AnswerForm,
} from './completion-answer.ts'
import { watchDelivery } from './delivery.ts'
import { describeError, fromCoreError, HttpError } from './http-error.ts'
import type { EndEvent, OpenRequests, RequestSink } from './open-requests.ts'
import { bodySizeBytesOf, type CompletionLimits, type CompletionRequest } from './request-body.ts'
import { nameRequest } from './request-id.ts'

export interface CompletionParts {
  readonly requests: OpenRequests
  readonly clock: Clock
  readonly limits: CompletionLimits
  randomHex(byteCount: number): string
}

/** What tells the two endpoints apart. */
export interface Endpoint {
  readonly form: AnswerForm
  /** @throws HttpError 400 or 404 naming what is wrong. */
  parse(body: unknown, bodySizeBytes: number, limits: CompletionLimits): CompletionRequest
}

interface Call {
  readonly form: AnswerForm
  readonly reply: FastifyReply
  readonly body: CompletionRequest
  readonly head: { readonly id: string; readonly created: number; readonly model: string }
  readonly wantsTimings: boolean
}

/** @throws HttpError for a body, id or load that is refused; fastify's error handler answers it. */
export async function handleCompletion(
  parts: CompletionParts,
  { form, parse }: Endpoint,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const names = nameRequest(form.idPrefix, request.headers['x-request-id'], parts.randomHex)
  const body = parse(request.body, bodySizeBytesOf(request), parts.limits)
  const call: Call = {
    form,
    reply,
    body,
    head: {
      id: names.publicId,
      created: Math.floor(Date.now() / 1_000),
      model: parts.limits.model,
    },
    wantsTimings: request.headers['x-kvferry-timings'] === '1',
  }
  await new Promise<void>((resolve, reject) => {
    const sink = body.isStream
      ? streamSink(call, resolve, reject)
      : wholeSink(call, resolve, reject)
    parts.requests.open(
      {
        requestId: names.internalId,
        promptTokens: body.promptTokens,
        promptDigest: null,
        maxTokens: body.maxTokens,
        kvTransferParams: body.kvTransferParams,
        receivedAtMs: parts.clock.now(),
      },
      sink,
    )
    watchDelivery(reply.raw, () => {
      parts.requests.abandon(names.internalId)
      resolve()
    })
  })
  return reply
}

/** The error with which an ended request is answered, or null when it ended well. */
function failureOf(end: EndEvent): HttpError | null {
  if (end.error !== null) return fromCoreError(end.error)
  if (end.finishReason !== 'abort') return null
  return new HttpError(503, 'ERR_KV_CLOSED', 'the engine ended before the request did')
}

function wholeSink(
  { body, form, head, reply, wantsTimings }: Call,
  resolve: () => void,
  reject: (error: HttpError) => void,
): RequestSink {
  let text = ''
  return {
    onToken(token) {
      text += String.fromCharCode(token)
    },
    onEnd(end) {
      const failure = failureOf(end)
      if (failure !== null) {
        reject(failure)
        return
      }
      const promptTokenCount = body.promptTokens.length
      const counts = { promptTokenCount, outputTokenCount: text.length }
      void reply.send(describeAnswer(form, { ...head, ...counts, text, wantsTimings }, end))
      resolve()
    },
    onFailure: reject,
  }
}

function streamSink(
  { body, form, head, reply, wantsTimings }: Call,
  resolve: () => void,
  reject: (error: HttpError) => void,
): RequestSink {
  let outputTokenCount = 0
  const write = (chunk: unknown): void => {
    reply.raw.write(`data: ${JSON.stringify(chunk)}\n\n`)
  }
  const fail = (failure: HttpError): void => {
    if (outputTokenCount === 0) {
      reject(failure)
      return
    }
    // No `[DONE]` after it: who looks for that alone would take half an answer for a whole one.
    write(describeError(failure))
    reply.raw.end()
    resolve()
  }
  return {
    onToken(token) {
      const isFirst = outputTokenCount === 0
      if (isFirst) openStream(reply)
      outputTokenCount++
      write(describeTokenChunk(form, head, String.fromCharCode(token), isFirst))
    },
    onEnd(end) {
      const failure = failureOf(end)
      if (failure !== null) {
        fail(failure)
        return
      }
      write(describeEndChunk(form, head, end, wantsTimings))
      const counts = { promptTokenCount: body.promptTokens.length, outputTokenCount }
      if (body.includeUsage) write(describeUsageChunk(form, { ...head, ...counts }, end))
      reply.raw.end('data: [DONE]\n\n')
      resolve()
    },
    onFailure: fail,
  }
}

function openStream(reply: FastifyReply): void {
  reply.hijack()
  reply.raw.writeHead(200, {
    'content-type': 'text/event-stream; charset=utf-8',
    'cache-control': 'no-cache',
    connection: 'keep-alive',
  })
}
