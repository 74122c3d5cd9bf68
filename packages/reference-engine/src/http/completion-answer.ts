/**
 * Answers of `POST /v1/completions` as objects: the whole one, and the chunks of a stream. Pure; shapes
 * are OpenAI's, with vLLM's `kv_transfer_params` and our `kvferry` beside them.
 */
import type { EndEvent } from './open-requests.ts'

export interface AnswerHead {
  readonly id: string
  /** Unix seconds. */
  readonly created: number
  readonly model: string
}

export interface AnswerUsage {
  readonly promptTokenCount: number
  readonly outputTokenCount: number
}

const head = ({ id, created, model }: AnswerHead) => ({
  id,
  object: 'text_completion',
  created,
  model,
})

const choice = (text: string, finishReason: string | null) => ({
  index: 0,
  text,
  logprobs: null,
  finish_reason: finishReason,
})

function usage({ promptTokenCount, outputTokenCount }: AnswerUsage, end: EndEvent) {
  return {
    prompt_tokens: promptTokenCount,
    completion_tokens: outputTokenCount,
    total_tokens: promptTokenCount + outputTokenCount,
    prompt_tokens_details: { cached_tokens: end.timings.cachedTokens },
  }
}

/** The answer of a request without `stream`. */
export function describeAnswer(
  answer: AnswerHead & AnswerUsage & { readonly text: string; readonly wantsTimings: boolean },
  end: EndEvent,
) {
  return {
    ...head(answer),
    choices: [choice(answer.text, end.finishReason)],
    usage: usage(answer, end),
    kv_transfer_params: end.kvTransferParams,
    ...(answer.wantsTimings ? { kvferry: end.timings } : {}),
  }
}

/** One token of a stream. */
export function describeTokenChunk(answer: AnswerHead, text: string) {
  return { ...head(answer), choices: [choice(text, null)] }
}

/** The chunk that says why the stream ends; its text is empty, since each token left at once. */
export function describeEndChunk(answer: AnswerHead, end: EndEvent, wantsTimings: boolean) {
  return {
    ...head(answer),
    choices: [choice('', end.finishReason)],
    ...(end.kvTransferParams === null ? {} : { kv_transfer_params: end.kvTransferParams }),
    ...(wantsTimings ? { kvferry: end.timings } : {}),
  }
}

/** After the end chunk, when `stream_options.include_usage` asks for it. */
export function describeUsageChunk(answer: AnswerHead & AnswerUsage, end: EndEvent) {
  return { ...head(answer), choices: [], usage: usage(answer, end) }
}
