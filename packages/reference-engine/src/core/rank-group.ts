/**
 * All ranks of one engine as one worker half: hooks go to every rank in order, fences are made and
 * signalled on every rank's agent, and reports count once all ranks have made them. In vLLM each rank is a
 * process of its own and the executor does this; here they share the core's thread.
 */
import type {
  ConnectorWorker,
  ReadyFence,
  RequestId,
  StatsSnapshot,
  TransferAgent,
  WorkerOutput,
} from '@kvferry/connector-api'
import { RankAggregator } from './rank-aggregator.ts'

export interface EngineRank {
  readonly worker: ConnectorWorker
  readonly agent: TransferAgent
}

/** One fence per rank. */
export type RankFences = readonly ReadyFence[]

/** The worker half as the step loop calls it. */
export interface EngineWorker {
  handlePreemptions(meta: Uint8Array): Promise<void>
  bindConnectorMetadata(meta: Uint8Array): void
  waitForSave(fences: RankFences | null): void
  getTransferResults(ended: ReadonlySet<RequestId>): WorkerOutput
  getStats(): StatsSnapshot | null
  createFences(): RankFences
  /** `inMs` from now, by the agents' own threads. */
  signalFences(fences: RankFences, inMs: number): void
}

export class RankGroup implements EngineWorker {
  readonly #ranks: readonly EngineRank[]
  readonly #aggregator: RankAggregator
  /** The latest of each rank; a rank says nothing when nothing changed. */
  readonly #counters: Readonly<Record<string, number>>[]

  constructor(ranks: readonly EngineRank[]) {
    this.#ranks = ranks
    this.#aggregator = new RankAggregator(ranks.length)
    this.#counters = ranks.map(() => ({}))
  }

  async handlePreemptions(meta: Uint8Array): Promise<void> {
    await Promise.all(this.#ranks.map(({ worker }) => worker.handlePreemptions(meta)))
  }

  bindConnectorMetadata(meta: Uint8Array): void {
    for (const { worker } of this.#ranks) worker.bindConnectorMetadata(meta)
  }

  waitForSave(fences: RankFences | null): void {
    this.#ranks.forEach(({ worker }, rank) => worker.waitForSave(fences?.[rank] ?? null))
  }

  getTransferResults(ended: ReadonlySet<RequestId>): WorkerOutput {
    return this.#aggregator.add(this.#ranks.map(({ worker }) => worker.getTransferResults(ended)))
  }

  /** Samples of all ranks, counters summed over them. */
  getStats(): StatsSnapshot | null {
    const snapshots = this.#ranks.map(({ worker }) => worker.getStats())
    if (snapshots.every((snapshot) => snapshot === null)) return null
    snapshots.forEach((snapshot, rank) => {
      if (snapshot !== null) this.#counters[rank] = snapshot.counters
    })
    const counters: Record<string, number> = {}
    for (const own of this.#counters) {
      for (const [name, value] of Object.entries(own))
        counters[name] = (counters[name] ?? 0) + value
    }
    return { loads: snapshots.flatMap((snapshot) => snapshot?.loads ?? []), counters }
  }

  createFences(): RankFences {
    return this.#ranks.map(({ agent }) => agent.createFence())
  }

  signalFences(fences: RankFences, inMs: number): void {
    this.#ranks.forEach(({ agent }, rank) =>
      agent.signalFence(fences[rank] as ReadyFence, { inMs }),
    )
  }
}
