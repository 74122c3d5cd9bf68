/**
 * Answers as objects: the whole one, and the chunks of a stream, for `/v1/completions` and
 * `/v1/chat/completions`. Pure; shapes are OpenAI's, with vLLM's `kv_transfer_params` and our `kvferry`
 * beside them. The two differ only in what an object is called and where the text stands.
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

/** How one endpoint spells its answers. */
export interface AnswerForm {
  readonly idPrefix: string
  readonly wholeObject: string
  readonly chunkObject: string
  /** The choice of a whole answer. */
  whole(text: string, finishReason: string): object
  /** The choice of one chunk; `isFirst` for the stream's first. */
  chunk(text: string, finishReason: string | null, isFirst: boolean): object
}

const textChoice = (text: string, finishReason: string | null) => ({
  index: 0,
  text,
  logprobs: null,
  finish_reason: finishReason,
})

export const completionForm: AnswerForm = {
  idPrefix: 'cmpl',
  wholeObject: 'text_completion',
  chunkObject: 'text_completion',
  whole: textChoice,
  chunk: textChoice,
}

export const chatForm: AnswerForm = {
  idPrefix: 'chatcmpl',
  wholeObject: 'chat.completion',
  chunkObject: 'chat.completion.chunk',
  whole: (text, finishReason) => ({
    index: 0,
    message: { role: 'assistant', content: text },
    logprobs: null,
    finish_reason: finishReason,
  }),
  chunk: (text, finishReason, isFirst) => ({
    index: 0,
    delta: { ...(isFirst ? { role: 'assistant' } : {}), ...(text === '' ? {} : { content: text }) },
    logprobs: null,
    finish_reason: finishReason,
  }),
}

const head = (object: string, { id, created, model }: AnswerHead) => ({
  id,
  object,
  created,
  model,
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
  form: AnswerForm,
  answer: AnswerHead & AnswerUsage & { readonly text: string; readonly wantsTimings: boolean },
  end: EndEvent,
) {
  return {
    ...head(form.wholeObject, answer),
    choices: [form.whole(answer.text, end.finishReason)],
    usage: usage(answer, end),
    kv_transfer_params: end.kvTransferParams,
    ...(answer.wantsTimings ? { kvferry: end.timings } : {}),
  }
}

/** One token of a stream. */
export function describeTokenChunk(
  form: AnswerForm,
  answer: AnswerHead,
  text: string,
  isFirst: boolean,
) {
  return { ...head(form.chunkObject, answer), choices: [form.chunk(text, null, isFirst)] }
}

/** The chunk that says why the stream ends; its text is empty, since each token left at once. */
export function describeEndChunk(
  form: AnswerForm,
  answer: AnswerHead,
  end: EndEvent,
  wantsTimings: boolean,
) {
  return {
    ...head(form.chunkObject, answer),
    choices: [form.chunk('', end.finishReason, false)],
    ...(end.kvTransferParams === null ? {} : { kv_transfer_params: end.kvTransferParams }),
    ...(wantsTimings ? { kvferry: end.timings } : {}),
  }
}

/** After the end chunk, when `stream_options.include_usage` asks for it. */
export function describeUsageChunk(
  form: AnswerForm,
  answer: AnswerHead & AnswerUsage,
  end: EndEvent,
) {
  return { ...head(form.chunkObject, answer), choices: [], usage: usage(answer, end) }
}
