/**
 * Validation of a client's request and the two bodies made from it. Pure: called by the HTTP layer
 * before any engine is involved. Checks only what the router itself acts upon; everything else is the
 * engines' business and passes through unchanged.
 */
import { z } from 'zod'
import type { KvTransferParams } from '@kvferry/connector-api'
import { plainWords } from '@kvferry/runtime'
import { badRequest, handoffRefused } from './router-error.ts'

export type CompletionPath = '/v1/completions' | '/v1/chat/completions'

export interface CompletionRequest {
  readonly path: CompletionPath
  readonly isStream: boolean
  /** The client's object without `kv_transfer_params`. */
  readonly body: Readonly<Record<string, unknown>>
  /** The client sent `kv_transfer_params`: they name memory, so only engines may. */
  readonly hadTransferParams: boolean
}

const count = z.number().int().min(1).nullish()
const common = {
  model: z.string({ error: 'you must provide a model parameter' }).min(1),
  n: z.number().int().nullish(),
  best_of: z.number().int().nullish(),
  stream: z.boolean().nullish(),
  max_tokens: count,
  max_completion_tokens: count,
}
const schemas = {
  '/v1/completions': z.looseObject({
    ...common,
    prompt: z.union([z.string(), z.array(z.unknown())], {
      error: 'expected a string or a list of token ids',
    }),
  }),
  '/v1/chat/completions': z.looseObject({ ...common, messages: z.array(z.unknown()).min(1) }),
} as const

function describe(error: z.ZodError): string {
  const issue = error.issues[0]
  if (issue === undefined) return 'the request body is invalid'
  const field = issue.path.join('.')
  return field === '' ? issue.message : `${field}: ${issue.message}`
}

/** A list of token ids is one prompt; any other list is several, each of which would need its own handoff. */
function isPromptList(prompt: unknown): boolean {
  return Array.isArray(prompt) && !(prompt.length > 0 && prompt.every(Number.isInteger))
}

/** @throws RouterError 400: ERR_KV_MESSAGE_INVALID, ERR_KV_UNSUPPORTED (`n > 1`, list prompts). */
export function parseCompletionRequest(path: CompletionPath, input: unknown): CompletionRequest {
  const parsed = schemas[path].safeParse(input, { error: plainWords })
  if (!parsed.success) throw badRequest(describe(parsed.error))
  const { kv_transfer_params: sentParams, ...body } = parsed.data as Record<string, unknown>
  for (const field of ['n', 'best_of'] as const) {
    const value = body[field]
    if (typeof value === 'number' && value !== 1) {
      const advice = 'each choice needs KV of its own; send one request per choice'
      throw badRequest(`${field}: only 1 is supported: ${advice}`, 'ERR_KV_UNSUPPORTED')
    }
  }
  if (isPromptList(body['prompt'])) {
    const advice = 'send one request per prompt'
    throw badRequest(`prompt: lists of prompts are not supported: ${advice}`, 'ERR_KV_UNSUPPORTED')
  }
  return {
    path,
    isStream: body['stream'] === true,
    body,
    hadTransferParams: sentParams !== undefined && sentParams !== null,
  }
}

/**
 * P computes the prompt and one token (vLLM has no "zero tokens"), whatever the client asked for. With a
 * transfer id P's blocks go to the decode engine that registers under it.
 */
export function prefillBody(request: CompletionRequest, transferId: string | null = null): string {
  const body: Record<string, unknown> = {
    ...request.body,
    stream: false,
    max_tokens: 1,
    kv_transfer_params: {
      do_remote_decode: true,
      do_remote_prefill: false,
      ...(transferId === null ? {} : { transfer_id: transferId }),
    },
  }
  delete body['stream_options']
  delete body['min_tokens']
  if (typeof body['max_completion_tokens'] === 'number') body['max_completion_tokens'] = 1
  return stringify(body)
}

/**
 * The client's own request, and where P's KV is to be had; without that D computes the prompt itself.
 * @throws RouterError 400 for a request, 502 for params that are nested too deeply to be written.
 */
export function decodeBody(request: CompletionRequest, params: KvTransferParams | null): string {
  if (params === null) return stringify(request.body)
  try {
    return JSON.stringify({ ...request.body, kv_transfer_params: params })
  } catch (cause) {
    if (!(cause instanceof RangeError)) throw cause
    // Throws if it is the client's.
    stringify(request.body)
    throw handoffRefused('kv_transfer_params is nested too deeply')
  }
}

/** JSON.parse is iterative, JSON.stringify is not: a body nested half a million deep overflows the stack. */
function stringify(body: Readonly<Record<string, unknown>>): string {
  try {
    return JSON.stringify(body)
  } catch (cause) {
    if (cause instanceof RangeError) throw badRequest('the request body is nested too deeply')
    throw cause
  }
}
