/**
 * Handoffs of prefills, written while the engine computes: to digest and to sign takes a good part of a
 * millisecond where it is seldom done, and at the end of a prefill a decode engine waits for it. A draft is
 * handed over only if it says what would be written then. The lease that it promises is as old as itself, so
 * an old one isn't used; the blocks are kept for as long as if it were new. Owned by producer-requests.ts.
 */
import type { Clock, Instant, KvTransferParams, RequestId, Timer } from '@kvferry/connector-api'
import { instantPlus } from '@kvferry/connector-api'
import type { HandoffContent, HandoffWriter } from './handoff-writer.ts'
import { pullLimits } from './limits.ts'

/** What is known of a handoff when its prompt has got its blocks. */
export interface DraftOrder {
  readonly blockIds: Uint32Array
  readonly tokenCount: number
  /** Asked for when the draft is written. */
  promptDigest(): Uint8Array
}

interface Draft {
  readonly content: HandoffContent
  readonly kvTransferParams: KvTransferParams
}

export class HandoffDrafts {
  readonly #clock: Clock
  readonly #leaseDurationMs: number
  readonly #ordered = new Map<RequestId, DraftOrder>()
  readonly #written = new Map<RequestId, Draft>()
  #timer: Timer | null = null

  constructor(clock: Clock, leaseDurationMs: number) {
    this.#clock = clock
    this.#leaseDurationMs = leaseDurationMs
  }

  /** Written when the engine's thread is free, which is when the step computes. Replaces an earlier one. */
  order(requestId: RequestId, order: DraftOrder, writer: HandoffWriter): void {
    this.#written.delete(requestId)
    this.#ordered.set(requestId, order)
    this.#timer ??= this.#clock.after(0, () => this.#write(writer))
  }

  /** Null when there is none that says this. It is gone in any case. */
  take(requestId: RequestId, wanted: HandoffContent): KvTransferParams | null {
    const draft = this.#written.get(requestId)
    this.drop(requestId)
    return draft !== undefined && this.#isGood(draft.content, wanted)
      ? draft.kvTransferParams
      : null
  }

  drop(requestId: RequestId): void {
    this.#ordered.delete(requestId)
    this.#written.delete(requestId)
  }

  /** Leaves no timer. */
  clear(): void {
    this.#timer?.stop()
    this.#timer = null
    this.#ordered.clear()
    this.#written.clear()
  }

  #write(writer: HandoffWriter): void {
    this.#timer = null
    const leaseDeadline = instantPlus(this.#clock.now(), this.#leaseDurationMs)
    for (const [requestId, order] of this.#ordered) {
      const { blockIds, tokenCount } = order
      const promptDigest = order.promptDigest()
      const content = { blockIds, tokenCount, promptDigest, leaseDeadline, isReturn: false }
      const kvTransferParams = writer.write(requestId, content)
      this.#written.set(requestId, { content, kvTransferParams })
    }
    this.#ordered.clear()
  }

  #isGood(draft: HandoffContent, wanted: HandoffContent): boolean {
    const oldest: Instant = instantPlus(
      wanted.leaseDeadline,
      -pullLimits.draftAgeShareMax * this.#leaseDurationMs,
    )
    return (
      draft.leaseDeadline >= oldest &&
      draft.tokenCount === wanted.tokenCount &&
      draft.isReturn === wanted.isReturn &&
      hasSameContent(draft.blockIds, wanted.blockIds) &&
      hasSameContent(draft.promptDigest, wanted.promptDigest)
    )
  }
}

const hasSameContent = (left: Uint8Array | Uint32Array, right: Uint8Array | Uint32Array): boolean =>
  left.length === right.length && left.every((value, at) => value === right[at])
