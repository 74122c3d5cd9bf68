/**
 * How much work a request is for each leg, in tokens, for load balancing alone. The router has no
 * tokenizer: text counts a token per four characters, which is near enough to compare engines by. Pure.
 */
import type { CompletionRequest } from './completion-request.ts'

const charactersPerToken = 4
/** Output tokens where the request sets none: OpenAI's default for completions; chats have no bound. */
const assumedOutputTokens = { '/v1/completions': 16, '/v1/chat/completions': 256 } as const

const textTokens = (text: string): number => Math.ceil(text.length / charactersPerToken)

function promptTokens({ body }: CompletionRequest): number {
  const { prompt, messages } = body
  if (typeof prompt === 'string') return textTokens(prompt)
  if (Array.isArray(prompt)) return prompt.length
  if (!Array.isArray(messages)) return 0
  const contents = messages.map((message: unknown) => {
    const content = (message as { content?: unknown } | null)?.content
    return typeof content === 'string' ? content : partsText(content)
  })
  return contents.reduce((sum, text) => sum + textTokens(text), 0)
}

/** A message's content may be a list of parts; those without text count nothing. */
function partsText(content: unknown): string {
  if (!Array.isArray(content)) return ''
  const texts = content.map((part: unknown) => (part as { text?: unknown } | null)?.text)
  return texts.filter((text) => typeof text === 'string').join('')
}

/** The prompt and the one token that P generates. */
export const prefillTokens = (request: CompletionRequest): number => promptTokens(request) + 1

/** The prompt, whose KV fills D's memory, and the longest output. */
export function decodeTokens(request: CompletionRequest): number {
  const { max_completion_tokens: forChat, max_tokens: forAll } = request.body
  const asked = [forChat, forAll].find((count) => typeof count === 'number')
  return promptTokens(request) + (asked ?? assumedOutputTokens[request.path])
}
