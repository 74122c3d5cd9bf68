/**
 * An engine of one rank as the step loop calls it: hooks reach the worker half as they are. Most engines have
 * one, and what `rank-group.ts` does to gather the reports of several would be paid in every step.
 */
import type {
  ConnectorWorker,
  RequestId,
  StatsSnapshot,
  TransferAgent,
  WorkerOutput,
} from '@kvferry/connector-api'
import type { EngineRank, EngineWorker, RankFences } from './rank-group.ts'

export class SoleRank implements EngineWorker {
  readonly #worker: ConnectorWorker
  readonly #agent: TransferAgent

  constructor({ worker, agent }: EngineRank) {
    this.#worker = worker
    this.#agent = agent
  }

  handlePreemptions(meta: Uint8Array): Promise<void> {
    return this.#worker.handlePreemptions(meta)
  }

  bindConnectorMetadata(meta: Uint8Array): void {
    this.#worker.bindConnectorMetadata(meta)
  }

  waitForSave(fences: RankFences | null): void {
    this.#worker.waitForSave(fences === null ? null : fences[0]!)
  }

  getTransferResults(ended: ReadonlySet<RequestId>): WorkerOutput {
    return this.#worker.getTransferResults(ended)
  }

  getStats(): StatsSnapshot | null {
    return this.#worker.getStats()
  }

  createFences(): RankFences {
    return [this.#agent.createFence()]
  }

  signalFences(fences: RankFences, inMs: number): void {
    this.#agent.signalFence(fences[0]!, { inMs })
  }
}
