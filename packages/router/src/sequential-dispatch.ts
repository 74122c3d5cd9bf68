/**
 * Sequential dispatch: P first; D is chosen only when P has answered, and gets P's handoff. For
 * connectors in which D acts on what P returned (pull, tickets). Called by the HTTP layer.
 */
import type { DispatchStrategy, RouterTimings } from './dispatch.ts'
import { askDecode } from './decode-leg.ts'
import { askPrefill } from './prefill-leg.ts'

export const sequentialDispatch: DispatchStrategy = {
  name: 'sequential',
  transferModes: new Set(['pull', 'ticket']),
  async dispatch(context) {
    const { scope, logger, metrics } = context
    const router: RouterTimings = {
      receivedAtMs: scope.receivedAt,
      prefillSentAtMs: scope.clock.now(),
      prefillAnsweredAtMs: null,
      decodeSentAtMs: null,
    }
    const prefilled = await askPrefill(context)
    const answeredAt = scope.clock.now()
    router.prefillAnsweredAtMs = answeredAt
    if (prefilled.kind === 'refused') {
      const { status, contentType, text } = prefilled
      return { kind: 'whole', status, contentType, text, timings: { router, prefill: null } }
    }
    if (prefilled.handoff === null) {
      metrics.recomputed()
      logger.warn('prefill gave no handoff: the decode engine computes the prompt', {
        requestId: scope.requestId,
      })
    }
    router.decodeSentAtMs = scope.clock.now()
    metrics.addedLatency(
      (router.prefillSentAtMs ?? 0) - router.receivedAtMs + router.decodeSentAtMs - answeredAt,
    )
    const decoded = await askDecode(context, prefilled.peer, prefilled.handoff)
    return { ...decoded, timings: { router, prefill: prefilled.timings } }
  },
}
