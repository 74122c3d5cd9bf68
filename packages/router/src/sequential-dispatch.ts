/**
 * Sequential dispatch: P first; D is chosen only when P has answered, and gets P's handoff. For
 * connectors in which D acts on what P returned (pull, tickets). Called by the HTTP layer.
 */
import type { DispatchContext, DispatchStrategy, RouterTimings } from './dispatch.ts'
import { askDecode, decodeDeadlineMs, type DecodeResult } from './decode-leg.ts'
import { sendToLeg } from './engine-leg.ts'
import type { EnginePeer } from './engine-peer.ts'
import type { Engine } from './engine.ts'
import { stepHandoff, type HandoffEvent, type HandoffState } from './handoff-state.ts'
import { askPrefill, type PrefillResult } from './prefill-leg.ts'

/** One request's handoff, from P's answer to its end. */
class HandoffCare {
  readonly #context: DispatchContext
  #state: HandoffState = { kind: 'awaited' }

  constructor(context: DispatchContext) {
    this.#context = context
  }

  /** `prefill`: whose handoff it is. */
  step(event: HandoffEvent, prefill: EnginePeer): void {
    const { scope, metrics, logger, releases } = this.#context
    const { state, effects } = stepHandoff(this.#state, event, scope.clock.now(), undefined)
    this.#state = state
    if (state.kind === 'taken' || state.kind === 'returned') metrics.handoffEnded(state.kind)
    for (const effect of effects) {
      if (effect.kind === 'give-back') releases.release(this.#context, prefill, effect.handoff)
      else {
        metrics.recomputed()
        logger.warn('prefill gave no handoff: the decode engine computes the prompt', {
          requestId: scope.requestId,
        })
      }
    }
  }
}

/** A decode engine that took the request ends the lease itself, also when the client leaves. */
async function decode(
  context: DispatchContext,
  { peer, handoff }: Extract<PrefillResult, { kind: 'answered' }>,
  care: HandoffCare,
): Promise<DecodeResult> {
  const { fleet, scope } = context
  care.step({ kind: 'ask' }, peer)
  try {
    const decoded = await scope.within('decode engine', decodeDeadlineMs(context), () =>
      askDecode(context, handoff, (call) =>
        sendToLeg(context, (excluded) => fleet.chooseDecode(peer, excluded), call),
      ),
    )
    const isRefused = decoded.kind === 'whole' && decoded.status >= 400
    care.step({ kind: isRefused ? 'refused' : 'taken' }, peer)
    return decoded
  } catch (error) {
    care.step({ kind: scope.reached.has('decode') ? 'taken' : 'refused' }, peer)
    throw error
  }
}

export const sequentialDispatch: DispatchStrategy = {
  name: 'sequential',
  obstacle: () => null,
  async dispatch(context, first) {
    const { fleet, scope, metrics } = context
    const router: RouterTimings = {
      receivedAtMs: scope.receivedAt,
      prefillSentAtMs: scope.clock.now(),
      prefillAnsweredAtMs: null,
      decodeSentAtMs: null,
    }
    const choose = (excluded: ReadonlySet<Engine>) =>
      excluded.size === 0 ? first : fleet.choosePrefill(excluded, sequentialDispatch.name)
    const prefilled = await askPrefill(context, null, (call) => sendToLeg(context, choose, call))
    const answeredAt = scope.clock.now()
    router.prefillAnsweredAtMs = answeredAt
    // Without an answer there is no handoff yet to care for.
    if (prefilled.kind === 'refused') {
      scope.throwIfAborted()
      return { ...prefilled, kind: 'whole', timings: { router, prefill: null } }
    }
    const care = new HandoffCare(context)
    care.step({ kind: 'answered', handoff: prefilled.handoff }, prefilled.peer)
    if (scope.signal.aborted) {
      care.step({ kind: 'leave' }, prefilled.peer)
      throw scope.reason
    }
    router.decodeSentAtMs = scope.clock.now()
    metrics.addedLatency(
      (router.prefillSentAtMs ?? 0) - router.receivedAtMs + router.decodeSentAtMs - answeredAt,
    )
    const decoded = await decode(context, prefilled, care)
    return { ...decoded, timings: { router, prefill: prefilled.timings } }
  },
}
