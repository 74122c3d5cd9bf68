/**
 * Makes one engine-wide output of what its ranks report, as vLLM's aggregator does: an id counts once every
 * rank has reported it, in whatever steps. A rank that reports an id twice meanwhile is a wrong connector.
 */
import type { FailedLoad, MatchedBlocks, WorkerOutput } from '../../connector.ts'
import type { RequestId } from '../../ids.ts'

class ReportCount {
  readonly #rankCount: number
  readonly #reported = new Map<RequestId, Set<number>>()

  constructor(rankCount: number) {
    this.#rankCount = rankCount
  }

  /** True when this was the last rank. @throws Error when it was this rank's second report. */
  add(id: RequestId, rank: number): boolean {
    const ranks = this.#reported.get(id) ?? new Set()
    if (ranks.has(rank)) throw new Error(`rank ${rank} reported ${id} twice`)
    ranks.add(rank)
    if (ranks.size < this.#rankCount) {
      this.#reported.set(id, ranks)
      return false
    }
    this.#reported.delete(id)
    return true
  }
}

export class RankAggregator {
  readonly #sent: ReportCount
  readonly #received: ReportCount
  readonly #failed = new Map<RequestId, FailedLoad>()
  readonly #rankCount: number
  /** Answers so far, by question. */
  readonly #matched = new Map<string, number[]>()

  constructor(rankCount: number) {
    this.#rankCount = rankCount
    this.#sent = new ReportCount(rankCount)
    this.#received = new ReportCount(rankCount)
  }

  /** One step's outputs, by rank. @throws Error for reports that the contract rules out. */
  add(outputs: readonly WorkerOutput[]): WorkerOutput {
    const sent: RequestId[] = []
    const received: RequestId[] = []
    const failed: FailedLoad[] = []
    const matched: MatchedBlocks[] = []
    for (const [rank, output] of outputs.entries()) {
      for (const load of output.failed) this.#fail(load, output)
      for (const match of output.matched ?? []) {
        const key = `${match.question} ${match.requestId}`
        const counts = [...(this.#matched.get(key) ?? []), match.blockCount]
        this.#matched.set(key, counts)
        if (counts.length < this.#rankCount) continue
        this.#matched.delete(key)
        matched.push({ ...match, blockCount: Math.min(...counts) })
      }
      for (const id of output.sent) if (this.#sent.add(id, rank)) sent.push(id)
      for (const id of output.received) {
        if (!this.#received.add(id, rank)) continue
        received.push(id)
        const load = this.#failed.get(id)
        if (load !== undefined) failed.push(load)
        this.#failed.delete(id)
      }
    }
    return { sent, received, failed, ...(matched.length === 0 ? {} : { matched }) }
  }

  #fail(load: FailedLoad, { received }: WorkerOutput): void {
    if (!received.includes(load.requestId)) {
      throw new Error(`${load.requestId} is in failed and not in received`)
    }
    const known = this.#failed.get(load.requestId)
    const blockIds = load.blockIds.map((ids, group) =>
      Uint32Array.from(new Set([...(known?.blockIds[group] ?? []), ...ids])),
    )
    this.#failed.set(load.requestId, { ...load, blockIds })
  }
}
