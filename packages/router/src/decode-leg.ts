/**
 * The decode leg: D gets the client's own request with what it needs to find P's KV. A stream is handed on
 * as whole events after its first byte has come, so that a D that fails before it still gives a clean error;
 * any other answer is read into memory. Either loses what D says about its own KV: that is no client's
 * business. Called by dispatch strategies; never repeats what D may have seen.
 */
import type { KvTransferParams } from '@kvferry/connector-api'
import { decodeBody } from './completion-request.ts'
import type { DispatchContext } from './dispatch.ts'
import type { Engine } from './engine.ts'
import { readText, retryAfterOf, type EngineAnswer } from './engine-client.ts'
import { legError, type SendCall } from './engine-leg.ts'
import { EventCutter } from './event-cutter.ts'
import { routerLimits } from './limits.ts'
import { answerWithoutParams, eventsWithoutParams } from './private-params.ts'
import { RouterError } from './router-error.ts'
import { decodeTokens } from './token-estimate.ts'
import { upstreamStatusError } from './upstream-error.ts'

export type DecodeResult =
  | {
      readonly kind: 'whole'
      readonly status: number
      readonly contentType: string
      readonly text: string
      readonly retryAfter: string | null
    }
  | {
      readonly kind: 'stream'
      readonly contentType: string
      /** Whole events, as D sent them but for `kv_transfer_params`. Throws RouterError when the stream cannot go on. */
      readonly chunks: AsyncIterable<Buffer>
      /** For the error event: whether the last chunk ended inside an event. */
      readonly isInsideEvent: () => boolean
      /** Whether D itself ended its stream with an error; known after the last chunk. */
      readonly hasFailed: () => boolean
    }

/** How long D may take to its first byte, or without a stream to the end of its answer. */
export const decodeDeadlineMs = ({ deadlines, request }: DispatchContext): number =>
  request.isStream ? deadlines.decodeFirstByteMs : deadlines.totalMs

/**
 * Without a deadline up to the first byte: when it begins depends on the strategy.
 * @throws RouterError: unreachable, lost before the first byte, 5xx.
 */
export async function askDecode(
  context: DispatchContext,
  params: KvTransferParams | null,
  send: SendCall,
): Promise<DecodeResult> {
  const { request, scope } = context
  const body = decodeBody(request, params)
  const tokens = decodeTokens(request)
  const { engine, answer } = await send({ leg: 'decode', body, tokens, graceMs: null })
  const contentType = String(answer.headers['content-type'] ?? 'application/json')
  try {
    if (answer.statusCode === 200 && contentType.startsWith('text/event-stream')) {
      return await openStream(context, engine, answer, contentType)
    }
    const sizeBytesMax = routerLimits.bufferedAnswerSizeBytesMax
    const text = answerWithoutParams(await readText(answer, sizeBytesMax, 'decode'))
    const status = answer.statusCode
    if (status < 200 || (status > 299 && status < 400) || status > 499) {
      // It has answered: what it had of the handoff it has given up.
      scope.reached.delete('decode')
      throw upstreamStatusError('decode', engine.url, status, text)
    }
    return { kind: 'whole', status, contentType, text, retryAfter: retryAfterOf(answer) }
  } catch (error) {
    throw legError(context, 'decode', engine.url, error)
  }
}

async function openStream(
  context: DispatchContext,
  engine: Engine,
  answer: EngineAnswer,
  contentType: string,
): Promise<DecodeResult> {
  const chunks = (answer.body as AsyncIterable<Buffer>)[Symbol.asyncIterator]()
  const first = await chunks.next()
  const cutter = new EventCutter()
  return {
    kind: 'stream',
    contentType,
    isInsideEvent: () => cutter.isInsideEvent,
    hasFailed: () => cutter.hasFailed,
    chunks: relay(context, engine, cutter, chunks, first),
  }
}

/** Ends normally only when D's stream came to its proper end; anything else is thrown. */
async function* relay(
  context: DispatchContext,
  engine: Engine,
  cutter: EventCutter,
  chunks: AsyncIterator<Buffer>,
  first: IteratorResult<Buffer>,
): AsyncGenerator<Buffer, void> {
  const { scope, deadlines } = context
  const { url } = engine
  try {
    let next = first
    while (next.done !== true) {
      engine.showedLife(scope.clock.now())
      const whole = cutter.push(next.value)
      if (whole.length > 0) yield eventsWithoutParams(whole)
      next = await scope.within('decode engine’s stream', deadlines.chunkIdleMs, () =>
        chunks.next(),
      )
    }
    const rest = cutter.takeRest()
    if (rest.length > 0) yield eventsWithoutParams(rest)
    if (!cutter.hasEnded) throw brokenOff(url)
  } catch (error) {
    // A connection that breaks after `[DONE]` has lost nothing.
    if (!scope.signal.aborted && cutter.hasEnded) return
    throw legError(context, 'decode', url, error)
  } finally {
    await chunks.return?.()
  }
}

function brokenOff(url: string): RouterError {
  return new RouterError({
    status: 502,
    code: 'ERR_KV_PEER_UNAVAILABLE',
    outcome: 'truncated',
    message: `decode engine ${url} ended its stream without [DONE]`,
  })
}
