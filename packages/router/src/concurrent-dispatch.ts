/**
 * Concurrent dispatch: P and D are asked at the same moment and meet under a transfer id of their own. For
 * connectors in which D tells P where its blocks are (push). A try whose P or D took nothing is repeated as
 * a whole, with another engine in its place and a new transfer id. Called by the dispatcher.
 */
import type {
  DispatchContext,
  DispatchStrategy,
  RoutedAnswer,
  RouterTimings,
  Timings,
} from './dispatch.ts'
import type { Engine } from './engine.ts'
import { PairedLegs, type Decision, type Pair } from './paired-legs.ts'
import { missingCoordinates } from './push-params.ts'
import { RouterError, type Leg } from './router-error.ts'
import { isBusyStatus } from './upstream-error.ts'

const name = 'concurrent'

/** The pairs of one request: each leg may be given to one other engine, once. */
class PairChoice {
  readonly #context: DispatchContext
  readonly #tookNothing = { prefill: new Set<Engine>(), decode: new Set<Engine>() }

  constructor(context: DispatchContext) {
    this.#context = context
  }

  /** @throws RouterError 503 ERR_KV_PEER_UNAVAILABLE. */
  pairFor(prefill: Engine): Pair {
    const { fleet } = this.#context
    const { peer } = prefill
    // Out of rotation since it was chosen: the choice of another one says why, if there is none.
    if (peer === null) return this.pairFor(this.#otherPrefill(prefill))
    return { prefill, peer, decode: fleet.chooseDecode(peer, this.#tookNothing.decode) }
  }

  /** The next pair after one in which this leg's engine took nothing; null when that was the second time. */
  after(pair: Pair, leg: Leg): Pair | null {
    if (this.#tookNothing[leg].size > 0) return null
    try {
      if (leg === 'prefill') return this.pairFor(this.#otherPrefill(pair.prefill))
      this.#tookNothing.decode.add(pair.decode)
      return this.pairFor(pair.prefill)
    } catch {
      return null
    }
  }

  #otherPrefill(prefill: Engine): Engine {
    const excluded = this.#tookNothing.prefill.add(prefill)
    return this.#context.fleet.choosePrefill(excluded, name)
  }
}

/** Nothing was done at that engine, so that another one may do it. */
function tookNothing(end: Exclude<Decision, { kind: 'decoded' }>): boolean {
  if (end.kind === 'refused') return isBusyStatus(end.answer.status)
  return end.failure instanceof RouterError && (end.failure.isBeforeSend || end.failure.isBusy)
}

export const concurrentDispatch: DispatchStrategy = {
  name,
  obstacle: missingCoordinates,
  async dispatch(context, first): Promise<RoutedAnswer> {
    const { scope, metrics } = context
    const choice = new PairChoice(context)
    let pair = choice.pairFor(first)
    metrics.addedLatency(scope.clock.now() - scope.receivedAt)
    for (;;) {
      const sentAt = scope.clock.now()
      const router: RouterTimings = {
        receivedAtMs: scope.receivedAt,
        prefillSentAtMs: sentAt,
        prefillAnsweredAtMs: null,
        decodeSentAtMs: sentAt,
      }
      // Filled in also after D's first byte: P's answer may come later.
      const timings: Timings = { router, prefill: null }
      const legs = new PairedLegs(context, pair)
      const decision = await legs.decision((measured) => {
        router.prefillAnsweredAtMs = scope.clock.now()
        timings.prefill = measured
      })
      if (decision.kind === 'decoded') {
        return { ...legs.letPrefillEnd(decision.decoded), timings }
      }
      const { leg } = decision
      await legs.end(leg)
      const next = tookNothing(decision) ? choice.after(pair, leg) : null
      if (next !== null) {
        metrics.retry(leg)
        pair = next
      } else if (decision.kind === 'refused') {
        return { ...decision.answer, timings }
      } else {
        throw decision.failure
      }
    }
  },
}
