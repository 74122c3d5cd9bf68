/** The body of `POST /v1/completions`: validated, bounded, and turned into tokens. Pure. */
import { z } from 'zod'
import {
  commonFields,
  invalid,
  optional,
  parseBody,
  refuseCommon,
  toRequest,
  unsupported,
  type CompletionLimits,
  type CompletionRequest,
} from './request-body.ts'

const bodySchema = z.looseObject({
  ...commonFields,
  prompt: z.union([z.string(), z.array(z.unknown())], {
    error: 'must be a string or a list of token ids',
  }),
  best_of: optional(z.int().min(1)),
  echo: optional(z.boolean()),
  logprobs: optional(z.int().min(0)),
  suffix: optional(z.string()),
})

type Body = z.output<typeof bodySchema>

function refuseUnsupported(body: Body): void {
  if ((body.best_of ?? 1) > 1) {
    throw unsupported('best_of above 1 is not supported; send one request per completion')
  }
  if (body.echo === true) throw unsupported('echo is not supported')
  if ((body.logprobs ?? 0) > 0) throw unsupported('logprobs are not supported')
  if ((body.suffix ?? '') !== '') throw unsupported('suffix is not supported')
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

/** @throws HttpError 400 or 404 naming what is wrong. */
export function parseCompletionRequest(
  input: unknown,
  bodySizeBytes: number,
  limits: CompletionLimits,
): CompletionRequest {
  const body = parseBody(bodySchema, input)
  refuseCommon(body, limits)
  refuseUnsupported(body)
  return toRequest(body, toTokens(body.prompt), bodySizeBytes, limits)
}
