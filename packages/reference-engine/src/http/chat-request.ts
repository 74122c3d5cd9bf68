/**
 * The body of `POST /v1/chat/completions`. The prompt is one line per message, `<role>: <text>`, and the
 * beginning of the assistant's: prefill and decode engine get the same messages and must see the same tokens,
 * so the template has no settings. Pure.
 */
import { z } from 'zod'
import {
  commonFields,
  optional,
  parseBody,
  refuseCommon,
  toRequest,
  unsupported,
  type CompletionLimits,
  type CompletionRequest,
} from './request-body.ts'

const textPart = z.looseObject({ type: z.string(), text: optional(z.string()) })

const bodySchema = z.looseObject({
  ...commonFields,
  max_completion_tokens: optional(z.int().min(1)),
  messages: z
    .array(
      z.looseObject({
        role: z.enum(['system', 'developer', 'user', 'assistant', 'tool']),
        content: z.union([z.string(), z.array(textPart)], {
          error: 'must be a string or a list of text parts',
        }),
      }),
    )
    .min(1),
  tools: optional(z.array(z.unknown())),
  logprobs: optional(z.boolean()),
})

type Message = z.output<typeof bodySchema>['messages'][number]

function textOf(content: Message['content']): string {
  if (typeof content === 'string') return content
  return content
    .map((part) => {
      if (part.type !== 'text') throw unsupported(`messages: parts of type ${part.type}`)
      return part.text ?? ''
    })
    .join('')
}

/** @throws HttpError 400 or 404 naming what is wrong. */
export function parseChatRequest(
  input: unknown,
  bodySizeBytes: number,
  limits: CompletionLimits,
): CompletionRequest {
  const body = parseBody(bodySchema, input)
  refuseCommon(body, limits)
  if ((body.tools ?? []).length > 0) throw unsupported('tools are not supported')
  if (body.logprobs === true) throw unsupported('logprobs are not supported')
  const lines = body.messages.map(({ role, content }) => `${role}: ${textOf(content)}\n`)
  const promptTokens = new TextEncoder().encode(`${lines.join('')}assistant: `)
  const maxTokens = body.max_completion_tokens ?? body.max_tokens
  return toRequest({ ...body, max_tokens: maxTokens }, promptTokens, bodySizeBytes, limits)
}
