/**
 * Sequential dispatch: P first; D is chosen only when P has answered, and gets P's handoff. For
 * connectors in which D acts on what P returned (pull, tickets). Called by the HTTP layer.
 */
import type { KvTransferParams } from '@kvferry/connector-api'
import type { DispatchContext, DispatchStrategy, RouterTimings } from './dispatch.ts'
import { askDecode, decodeDeadlineMs, type DecodeResult } from './decode-leg.ts'
import { sendToLeg } from './engine-leg.ts'
import type { EnginePeer } from './engine-peer.ts'
import type { Engine } from './engine.ts'
import { askPrefill } from './prefill-leg.ts'

/** A decode engine that took the request ends the lease itself, also when the client leaves. */
async function decodeOrRelease(
  context: DispatchContext,
  peer: EnginePeer,
  handoff: KvTransferParams | null,
): Promise<DecodeResult> {
  let wasRefused = true
  const { fleet, scope } = context
  try {
    const decoded = await scope.within('decode engine', decodeDeadlineMs(context), () =>
      askDecode(context, handoff, (call) =>
        sendToLeg(context, (excluded) => fleet.chooseDecode(peer, excluded), call),
      ),
    )
    wasRefused = decoded.kind === 'whole' && decoded.status >= 400
    return decoded
  } catch (error) {
    wasRefused = !scope.reached.has('decode')
    throw error
  } finally {
    if (wasRefused && handoff !== null) context.releases.release(context, peer, handoff)
  }
}

export const sequentialDispatch: DispatchStrategy = {
  name: 'sequential',
  transferModes: new Set(['pull', 'ticket']),
  obstacle: () => null,
  async dispatch(context, first) {
    const { fleet, scope, logger, metrics } = context
    const router: RouterTimings = {
      receivedAtMs: scope.receivedAt,
      prefillSentAtMs: scope.clock.now(),
      prefillAnsweredAtMs: null,
      decodeSentAtMs: null,
    }
    const choose = (excluded: ReadonlySet<Engine>) =>
      excluded.size === 0 ? first : fleet.choosePrefill(excluded, sequentialDispatch.transferModes)
    const prefilled = await askPrefill(context, null, (call) => sendToLeg(context, choose, call))
    const answeredAt = scope.clock.now()
    router.prefillAnsweredAtMs = answeredAt
    if (prefilled.kind === 'refused') {
      return { ...prefilled, kind: 'whole', timings: { router, prefill: null } }
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
    const decoded = await decodeOrRelease(context, prefilled.peer, prefilled.handoff)
    return { ...decoded, timings: { router, prefill: prefilled.timings } }
  },
}
