/**
 * What the bodies of `/v1/completions` and `/v1/chat/completions` share: fields, refusals, bounds. Pure.
 * What would change the result and isn't supported is refused; sampling parameters are accepted and without
 * effect, since the reference model has one answer to every prompt. Unknown fields are ignored, as vLLM does.
 */
import type { FastifyRequest } from 'fastify'
import { z } from 'zod'
import { limits } from '@kvferry/connector-api'
import type { KvTransferParams } from '@kvferry/connector-api'
import { plainWords } from '@kvferry/runtime'
import { HttpError } from './http-error.ts'

export interface CompletionRequest {
  readonly promptTokens: Uint8Array
  readonly maxTokens: number
  readonly isStream: boolean
  readonly includeUsage: boolean
  readonly kvTransferParams: KvTransferParams | null
}

export interface CompletionLimits {
  readonly model: string
  readonly maxModelLen: number
}

const defaultMaxTokens = 16

export const optional = <T extends z.ZodType>(schema: T) => schema.nullish()

export const commonFields = {
  model: optional(z.string()),
  max_tokens: optional(z.int().min(1)),
  stream: optional(z.boolean()),
  stream_options: optional(z.looseObject({ include_usage: optional(z.boolean()) })),
  n: optional(z.int().min(1)),
  stop: optional(z.union([z.string(), z.array(z.string())])),
  kv_transfer_params: optional(z.record(z.string(), z.unknown())),
}

export type CommonBody = z.output<z.ZodObject<typeof commonFields>>

export const unsupported = (message: string): HttpError =>
  new HttpError(400, 'ERR_KV_UNSUPPORTED', message)
export const invalid = (message: string): HttpError =>
  new HttpError(400, 'ERR_KV_MESSAGE_INVALID', message)

/** @throws HttpError 400 naming the first field that is wrong. */
export function parseBody<T>(schema: z.ZodType<T>, input: unknown): T {
  const parsed = schema.safeParse(input, { error: plainWords })
  if (parsed.success) return parsed.data
  const [issue] = parsed.error.issues
  const field = issue === undefined || issue.path.length === 0 ? 'body' : issue.path.join('.')
  throw invalid(`${field}: ${issue?.message ?? 'has the wrong form'}`)
}

/** @throws HttpError 404 for another model, 400 for what isn't supported. */
export function refuseCommon(body: CommonBody, { model }: CompletionLimits): void {
  if (typeof body.model === 'string' && body.model !== model) {
    const message = `model "${body.model}" is not served; use "${model}"`
    throw new HttpError(404, 'model_not_found', message)
  }
  if ((body.n ?? 1) > 1) {
    throw unsupported('n above 1 is not supported; send one request per completion')
  }
  if ((body.stop ?? '').length > 0) {
    throw unsupported('stop is not supported; every completion has max_tokens tokens')
  }
}

/**
 * `bodySizeBytes`: of the body as it came.
 * @throws HttpError 400 for a prompt that is empty or too long, or params that are too large.
 */
export function toRequest(
  body: CommonBody,
  promptTokens: Uint8Array,
  bodySizeBytes: number,
  { maxModelLen }: CompletionLimits,
): CompletionRequest {
  if (promptTokens.length === 0) throw invalid('prompt: must have at least one token')
  const maxTokens = body.max_tokens ?? defaultMaxTokens
  if (promptTokens.length + maxTokens > maxModelLen) {
    const parts = `${promptTokens.length} prompt tokens and max_tokens ${maxTokens}`
    throw new HttpError(400, 'ERR_KV_LIMIT', `${parts} exceed the longest sequence, ${maxModelLen}`)
  }
  const kvTransferParams = body.kv_transfer_params ?? null
  checkParams(kvTransferParams, bodySizeBytes)
  return {
    promptTokens,
    maxTokens,
    isStream: body.stream ?? false,
    includeUsage: body.stream_options?.include_usage ?? false,
    kvTransferParams,
  }
}

/** Infinity for a body whose size wasn't said beforehand. */
export const bodySizeBytesOf = ({ headers }: FastifyRequest): number =>
  Number(headers['content-length'] ?? Infinity)

/**
 * What is in a body is no larger than the body, so only params in large ones are measured.
 * @throws HttpError 400 for params that no handoff could be.
 */
export function checkParams(params: KvTransferParams | null, bodySizeBytes: number): void {
  const max = limits.handoffSizeBytesMax
  if (params === null || bodySizeBytes <= max) return
  const sizeBytes = Buffer.byteLength(JSON.stringify(params))
  if (sizeBytes <= max) return
  const message = `kv_transfer_params has ${sizeBytes} bytes, at most ${max}`
  throw new HttpError(400, 'ERR_KV_LIMIT', message)
}
