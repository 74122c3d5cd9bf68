/**
 * The body of `POST /v1/completions`: validated, bounded, and turned into tokens. Pure. What would change
 * the result and isn't supported is refused; sampling parameters are accepted and without effect, since
 * the reference model has one answer to every prompt. Unknown fields are ignored, as vLLM does.
 */
import { z } from 'zod'
import { limits } from '@kvferry/connector-api'
import type { KvTransferParams } from '@kvferry/connector-api'
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

const optional = <T extends z.ZodType>(schema: T) => schema.nullish()

const bodySchema = z.looseObject({
  model: optional(z.string()),
  prompt: z.union([z.string(), z.array(z.unknown())], {
    error: 'must be a string or a list of token ids',
  }),
  max_tokens: optional(z.int().min(1)),
  stream: optional(z.boolean()),
  stream_options: optional(z.looseObject({ include_usage: optional(z.boolean()) })),
  n: optional(z.int().min(1)),
  best_of: optional(z.int().min(1)),
  echo: optional(z.boolean()),
  logprobs: optional(z.int().min(0)),
  suffix: optional(z.string()),
  stop: optional(z.union([z.string(), z.array(z.string())])),
  kv_transfer_params: optional(z.record(z.string(), z.unknown())),
})

type Body = z.output<typeof bodySchema>

const unsupported = (message: string): HttpError =>
  new HttpError(400, 'ERR_KV_UNSUPPORTED', message)
const invalid = (message: string): HttpError =>
  new HttpError(400, 'ERR_KV_MESSAGE_INVALID', message)

function refuseUnsupported(body: Body): void {
  if ((body.n ?? 1) > 1 || (body.best_of ?? 1) > 1) {
    throw unsupported('n and best_of above 1 are not supported; send one request per completion')
  }
  if (body.echo === true) throw unsupported('echo is not supported')
  if ((body.logprobs ?? 0) > 0) throw unsupported('logprobs are not supported')
  if ((body.suffix ?? '') !== '') throw unsupported('suffix is not supported')
  if ((body.stop ?? '').length > 0) {
    throw unsupported('stop is not supported; every completion has max_tokens tokens')
  }
}

function toTokens(prompt: Body['prompt']): Uint8Array {
  if (typeof prompt === 'string') return new TextEncoder().encode(prompt)
  if (prompt.some((entry) => typeof entry === 'string' || Array.isArray(entry))) {
    throw unsupported('a list of prompts is not supported; send one request per prompt')
  }
  const isToken = (entry: unknown): entry is number =>
    Number.isInteger(entry) && (entry as number) >= 0 && (entry as number) <= 255
  if (!prompt.every(isToken)) throw invalid('prompt: token ids are integers from 0 to 255')
  return Uint8Array.from(prompt)
}

function checkParams(params: KvTransferParams | null): void {
  if (params === null) return
  const sizeBytes = Buffer.byteLength(JSON.stringify(params))
  if (sizeBytes <= limits.handoffSizeBytesMax) return
  const max = limits.handoffSizeBytesMax
  throw new HttpError(
    400,
    'ERR_KV_LIMIT',
    `kv_transfer_params has ${sizeBytes} bytes, at most ${max}`,
  )
}

/** @throws HttpError 400 or 404 naming what is wrong. */
export function parseCompletionRequest(
  input: unknown,
  { maxModelLen, model }: CompletionLimits,
): CompletionRequest {
  const parsed = bodySchema.safeParse(input)
  if (!parsed.success) {
    const [issue] = parsed.error.issues
    const field = issue === undefined || issue.path.length === 0 ? 'body' : issue.path.join('.')
    throw invalid(`${field}: ${issue?.message ?? 'malformed'}`)
  }
  const body = parsed.data
  if (typeof body.model === 'string' && body.model !== model) {
    throw new HttpError(
      404,
      'model_not_found',
      `model "${body.model}" is not served; use "${model}"`,
    )
  }
  refuseUnsupported(body)
  const promptTokens = toTokens(body.prompt)
  if (promptTokens.length === 0) throw invalid('prompt: must have at least one token')
  const maxTokens = body.max_tokens ?? defaultMaxTokens
  const tokenCount = promptTokens.length + maxTokens
  if (tokenCount > maxModelLen) {
    const parts = `${promptTokens.length} prompt tokens and max_tokens ${maxTokens}`
    throw new HttpError(400, 'ERR_KV_LIMIT', `${parts} exceed the longest sequence, ${maxModelLen}`)
  }
  const kvTransferParams = body.kv_transfer_params ?? null
  checkParams(kvTransferParams)
  return {
    promptTokens,
    maxTokens,
    isStream: body.stream ?? false,
    includeUsage: body.stream_options?.include_usage ?? false,
    kvTransferParams,
  }
}
