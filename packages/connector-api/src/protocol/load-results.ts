/**
 * What ended loads leave behind until the engine fetches it: ids to report, failures with their blocks,
 * samples for the harness. Every id passes here exactly once.
 */
import type {
  AnyConnectorError,
  BlockIds,
  FailedLoad,
  LoadSample,
  LogFields,
  RequestId,
  WorkerComponents,
} from '../index.ts'
import { protocolLimits } from './limits.ts'
import type { Counters } from './counters.ts'

export type LoadOutcome =
  | { readonly kind: 'loaded' }
  | { readonly kind: 'failed'; readonly error: AnyConnectorError }
  /** The engine gave the request up; its blocks are reported back without a verdict. */
  | { readonly kind: 'aborted' }

/** The counters that a protocol which loads must have. */
export type LoadCounter = 'loadsDone' | 'loadsFailed' | 'loadsAborted' | 'loadSamplesDropped'

/** An ended load, as the engine knows it. */
interface EndedLoad {
  readonly requestId: RequestId
  readonly blockIds: BlockIds
}

export class LoadResults {
  readonly #components: WorkerComponents
  readonly #counters: Pick<Counters<LoadCounter>, 'add'>
  #received: RequestId[] = []
  #failed: FailedLoad[] = []
  #samples: LoadSample[] = []

  constructor(components: WorkerComponents, counters: Pick<Counters<LoadCounter>, 'add'>) {
    this.#components = components
    this.#counters = counters
  }

  /**
   * Wakes the engine. An aborted load is only reported back: nobody waits for its verdict. `source` is where it
   * was to come from, for the line that tells of a failure.
   */
  add(load: EndedLoad, outcome: LoadOutcome, source: LogFields = {}): void {
    this.#received.push(load.requestId)
    switch (outcome.kind) {
      case 'loaded':
        this.#counters.add('loadsDone')
        break
      case 'aborted':
        this.#counters.add('loadsAborted')
        break
      case 'failed':
        this.#fail(load, outcome.error, source)
        break
    }
    this.#components.requestStep()
  }

  addSample(sample: LoadSample): void {
    if (this.#samples.length >= protocolLimits.loadSampleCountMax) {
      this.#samples.shift()
      this.#counters.add('loadSamplesDropped')
    }
    this.#samples.push(sample)
  }

  take(): { readonly received: RequestId[]; readonly failed: FailedLoad[] } {
    const results = { received: this.#received, failed: this.#failed }
    this.#received = []
    this.#failed = []
    return results
  }

  takeSamples(): LoadSample[] {
    const samples = this.#samples
    this.#samples = []
    return samples
  }

  #fail({ requestId, blockIds }: EndedLoad, error: AnyConnectorError, source: LogFields): void {
    const { logger, metrics } = this.#components
    this.#failed.push({ requestId, blockIds, error })
    this.#counters.add('loadsFailed')
    metrics.add('kv_loads_failed_total', 1, { code: error.code })
    const blocks = blockIds.reduce((count, ids) => count + ids.length, 0)
    logger.warn(`load failed: ${error.message}`, { requestId, code: error.code, blocks, ...source })
  }
}
