/**
 * Makes one output of what the ranks report, as vLLM's aggregator does: an id counts once every rank has
 * reported it, in whatever steps; a load has failed when it failed on any rank, with the blocks of all, and
 * what all ranks have is what the one has that has least.
 * A second report of a rank is a bug of the connector and ends the engine.
 */
import { assert } from '@kvferry/connector-api'
import type { FailedLoad, MatchedBlocks, RequestId, WorkerOutput } from '@kvferry/connector-api'

export class RankAggregator {
  readonly #rankCount: number
  readonly #sent = new Map<RequestId, Set<number>>()
  readonly #received = new Map<RequestId, Set<number>>()
  readonly #failed = new Map<RequestId, FailedLoad>()
  readonly #matched = new Map<string, MatchedBlocks & { readonly rankCount: number }>()

  constructor(rankCount: number) {
    this.#rankCount = rankCount
  }

  /** One step's outputs, in the order of the ranks. */
  add(outputs: readonly WorkerOutput[]): WorkerOutput {
    const sent: RequestId[] = []
    const received: RequestId[] = []
    const matched: MatchedBlocks[] = []
    outputs.forEach((output, rank) => {
      for (const failure of output.failed) this.#fail(failure)
      for (const match of output.matched ?? []) matched.push(...this.#match(match))
      for (const id of output.sent) if (this.#isLast(this.#sent, id, rank)) sent.push(id)
      for (const id of output.received) {
        if (this.#isLast(this.#received, id, rank)) received.push(id)
      }
    })
    const failed = received.flatMap((id) => {
      const failure = this.#failed.get(id)
      this.#failed.delete(id)
      return failure === undefined ? [] : [failure]
    })
    return { sent, received, failed, matched }
  }

  #isLast(reports: Map<RequestId, Set<number>>, id: RequestId, rank: number): boolean {
    const ranks = reports.get(id) ?? new Set()
    assert(!ranks.has(rank), `rank ${rank} reported ${id} twice`)
    ranks.add(rank)
    if (ranks.size < this.#rankCount) reports.set(id, ranks)
    else reports.delete(id)
    return ranks.size === this.#rankCount
  }

  /** The answer of all ranks, once the last one has given its own. */
  #match({ requestId, question, blockCount }: MatchedBlocks): MatchedBlocks[] {
    const key = `${question} ${requestId}`
    const known = this.#matched.get(key)
    const least = Math.min(blockCount, known?.blockCount ?? blockCount)
    const rankCount = (known?.rankCount ?? 0) + 1
    const all = { requestId, question, blockCount: least }
    if (rankCount < this.#rankCount) this.#matched.set(key, { ...all, rankCount })
    else this.#matched.delete(key)
    return rankCount < this.#rankCount ? [] : [all]
  }

  /** The first error stands; what any rank could not load is invalid on all. */
  #fail(failure: FailedLoad): void {
    const known = this.#failed.get(failure.requestId)
    if (known === undefined) {
      this.#failed.set(failure.requestId, failure)
      return
    }
    const blockIds = known.blockIds.map((ids, group) =>
      Uint32Array.from(new Set([...ids, ...(failure.blockIds[group] ?? [])])),
    )
    this.#failed.set(failure.requestId, { ...known, blockIds })
  }
}
