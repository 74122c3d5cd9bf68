/**
 * One try of concurrent dispatch: both legs at once, each in a branch of the request's scope, and the rule
 * which of them decides. Until D's first byte the first leg that fails or refuses ends the other one, since
 * neither is of use alone; from then on D has its KV, and P's leg ends by itself. Called by
 * concurrent-dispatch.ts, which repeats a try; leaves no leg behind on any way out.
 */
import type { KvTransferParams } from '@kvferry/connector-api'
import { askDecode, decodeDeadlineMs, type DecodeResult } from './decode-leg.ts'
import type { DispatchContext } from './dispatch.ts'
import { sendTo } from './engine-leg.ts'
import type { EnginePeer } from './engine-peer.ts'
import type { Engine } from './engine.ts'
import { askPrefill, type PrefillResult } from './prefill-leg.ts'
import { newTransferId, pushParams } from './push-params.ts'
import { otherLegEnded, type Leg } from './router-error.ts'

export interface Pair {
  readonly prefill: Engine
  /** As it was when it was chosen. */
  readonly peer: EnginePeer
  readonly decode: Engine
}

/** What decides a try: D's first byte or whole answer, or the first leg without success. */
export type Decision =
  | { readonly kind: 'decoded'; readonly decoded: DecodeResult }
  /** An engine's own refusal (4xx), which is the client's answer. */
  | {
      readonly kind: 'refused'
      readonly leg: Leg
      readonly answer: DecodeResult & { kind: 'whole' }
    }
  | { readonly kind: 'failed'; readonly leg: Leg; readonly failure: unknown }

export class PairedLegs {
  readonly #context: DispatchContext
  readonly #pair: Pair
  readonly #transferId: string
  /** What D is told. */
  readonly #params: KvTransferParams
  readonly #prefill: DispatchContext
  readonly #decode: DispatchContext
  readonly #prefilling: Promise<PrefillResult>
  readonly #decoding: Promise<DecodeResult>

  /** Sends both. */
  constructor(context: DispatchContext, pair: Pair) {
    const { scope, random } = context
    this.#context = context
    this.#pair = pair
    this.#transferId = newTransferId(random)
    this.#prefill = { ...context, scope: scope.branch() }
    this.#decode = { ...context, scope: scope.branch() }
    this.#params = pushParams(pair.peer, scope.requestId, this.#transferId)
    this.#prefilling = askPrefill(this.#prefill, this.#transferId, (call) =>
      sendTo(this.#prefill, pair.prefill, call),
    )
    this.#decoding = askDecode(this.#decode, this.#params, (call) =>
      sendTo(this.#decode, pair.decode, call),
    )
  }

  /** Never rejects. P's answer decides nothing: from then on D has its time to the first byte. */
  decision(onPrefilled: (timings: unknown) => void): Promise<Decision> {
    const byDecode = this.#decoding.then(
      (decoded): Decision =>
        decoded.kind === 'whole' && decoded.status >= 400
          ? { kind: 'refused', leg: 'decode', answer: decoded }
          : { kind: 'decoded', decoded },
      (failure: unknown): Decision => ({ kind: 'failed', leg: 'decode', failure }),
    )
    const byPrefill = this.#prefilling.then(
      (prefilled): Decision | Promise<Decision> => {
        if (prefilled.kind === 'refused') {
          return { kind: 'refused', leg: 'prefill', answer: { ...prefilled, kind: 'whole' } }
        }
        onPrefilled(prefilled.timings)
        const deadlineMs = decodeDeadlineMs(this.#context)
        return this.#decode.scope.within('decode engine', deadlineMs, () => byDecode)
      },
      (failure: unknown): Decision => ({ kind: 'failed', leg: 'prefill', failure }),
    )
    return Promise.race([byDecode, byPrefill])
  }

  /** D's answer is under way: P's leg ends by itself, unless D's stream breaks. */
  letPrefillEnd(decoded: DecodeResult): DecodeResult {
    this.#context.scope.keepOpenFor(this.#prefilling)
    if (decoded.kind === 'whole') return decoded
    return { ...decoded, chunks: this.#endingPrefillWith(decoded.chunks) }
  }

  /** Resolves when both legs have ended; `by` is the one that was of no use. */
  async end(by: Leg): Promise<void> {
    for (const { scope } of [this.#prefill, this.#decode]) scope.abort(otherLegEnded(by))
    const [prefilled, decoded] = await Promise.allSettled([this.#prefilling, this.#decoding])
    const wasTaken =
      decoded.status === 'fulfilled'
        ? decoded.value.kind === 'stream' || decoded.value.status < 400
        : this.#decode.scope.reached.has('decode')
    if (prefilled.status === 'fulfilled' && !wasTaken) this.#giveBack(prefilled.value)
  }

  /** P is done and would wait for a D that never had the request. One that had it tells P itself. */
  #giveBack(prefilled: PrefillResult): void {
    if (prefilled.kind === 'refused') return
    const handoff: KvTransferParams =
      prefilled.handoff === null
        ? this.#params
        : { ...prefilled.handoff, transfer_id: this.#transferId }
    this.#context.releases.release(this.#context, this.#pair.peer, handoff)
  }

  async *#endingPrefillWith(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer, void> {
    try {
      yield* chunks
    } catch (error) {
      this.#prefill.scope.abort(otherLegEnded('decode'))
      throw error
    }
  }
}
