/**
 * The prefill leg: P computes the prompt and answers, with the handoff. Whole within one deadline.
 * Called by dispatch strategies, which say who P is.
 */
import { prefillBody } from './completion-request.ts'
import type { DispatchContext } from './dispatch.ts'
import { readText, retryAfterOf } from './engine-client.ts'
import type { EnginePeer } from './engine-peer.ts'
import { legError, type SendCall } from './engine-leg.ts'
import { readPrefillAnswer, type PrefillAnswer } from './handoff.ts'
import { routerLimits } from './limits.ts'
import { prefillTokens } from './token-estimate.ts'
import { upstreamStatusError } from './upstream-error.ts'

export type PrefillResult =
  | ({ readonly kind: 'answered'; readonly peer: EnginePeer } & PrefillAnswer)
  /** P refused the client's request (4xx): its answer is the client's. */
  | {
      readonly kind: 'refused'
      readonly status: number
      readonly contentType: string
      readonly text: string
      readonly retryAfter: string | null
    }

/**
 * An answer that has begun is read whole, also when the request has ended meanwhile: what it hands over is the
 * caller's to give back. `transferId` pairs this leg with a decode leg that runs at the same time; null where D comes later.
 * @throws RouterError: unreachable, lost, late, 5xx, or an answer that cannot be used.
 */
export async function askPrefill(
  context: DispatchContext,
  transferId: string | null,
  send: SendCall,
): Promise<PrefillResult> {
  const { scope, deadlines, request } = context
  const body = prefillBody(request, transferId)
  const tokens = prefillTokens(request)
  const call = { leg: 'prefill', body, tokens, graceMs: deadlines.pollMs } as const
  return scope.within('prefill engine', deadlines.prefillAnswerMs, async () => {
    const { engine, peer, answer } = await send(call)
    try {
      const text = await readText(answer, routerLimits.prefillAnswerSizeBytesMax, 'prefill')
      const status = answer.statusCode
      if (status >= 400 && status < 500) {
        const contentType = String(answer.headers['content-type'] ?? 'application/json')
        return { kind: 'refused', status, contentType, text, retryAfter: retryAfterOf(answer) }
      }
      if (status < 200 || status > 299) {
        throw upstreamStatusError('prefill', engine.url, status, text)
      }
      const read = readPrefillAnswer(text, engine.declared)
      return { kind: 'answered', peer, ...read }
    } catch (error) {
      throw legError(context, 'prefill', engine.url, error)
    }
  })
}
