/**
 * The decode leg: D gets the client's own request with P's handoff. A stream is handed on as whole
 * events after its first byte has come, so that a D that fails before it still gives a clean error; any
 * other answer is read into memory. Called by dispatch strategies; never repeats what D may have seen.
 */
import type { KvTransferParams } from '@kvferry/connector-api'
import { decodeBody } from './completion-request.ts'
import type { DispatchContext } from './dispatch.ts'
import type { Engine } from './engine.ts'
import { readText, retryAfterOf, type EngineAnswer } from './engine-client.ts'
import { legError, sendToLeg } from './engine-leg.ts'
import type { EnginePeer } from './engine-peer.ts'
import { EventCutter } from './event-cutter.ts'
import { routerLimits } from './limits.ts'
import { RouterError } from './router-error.ts'
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
      /** Whole events, as D sent them. Throws RouterError when the stream cannot go on. */
      readonly chunks: AsyncIterable<Buffer>
      /** For the error event: whether the last chunk ended inside an event. */
      readonly isInsideEvent: () => boolean
    }

/** @throws RouterError: unreachable, lost or late before the first byte, 5xx. */
export async function askDecode(
  context: DispatchContext,
  prefill: EnginePeer,
  handoff: KvTransferParams | null,
): Promise<DecodeResult> {
  const { deadlines, request, scope } = context
  const body = decodeBody(request, handoff)
  const firstByteMs = request.isStream ? deadlines.decodeFirstByteMs : deadlines.totalMs
  return scope.within('decode engine', firstByteMs, async () => {
    const { engine, answer } = await sendToLeg(
      context,
      'decode',
      (excluded) => context.fleet.chooseDecode(prefill, excluded),
      body,
    )
    const contentType = String(answer.headers['content-type'] ?? 'application/json')
    try {
      if (answer.statusCode === 200 && contentType.startsWith('text/event-stream')) {
        return await openStream(context, engine, answer, contentType)
      }
      const text = await readText(answer, routerLimits.bufferedAnswerSizeBytesMax, 'decode')
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
  })
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
      if (whole.length > 0) yield whole
      next = await scope.within('decode engine’s stream', deadlines.chunkIdleMs, () =>
        chunks.next(),
      )
    }
    const rest = cutter.takeRest()
    if (rest.length > 0) yield rest
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
