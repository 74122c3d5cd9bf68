import type { AgentPath } from './slabs.ts'

/**
 * What a connector can do, as data. Drives the conformance suite's skips, the support table in the
 * docs, the router's dispatch and early refusal (ERR_KV_UNSUPPORTED). It never changes at run time.
 */
export interface ConnectorCapabilities {
  /** Who moves the bytes. Peers with different modes refuse each other in the handshake. */
  readonly transferMode: 'pull' | 'push' | 'ticket'
  /** `sequential`: the router asks D after P answered. `concurrent`: it asks both at once. */
  readonly dispatch: 'sequential' | 'concurrent'
  /** KV may also flow from D back to P for the next turn. */
  readonly isBidirectional: boolean
  /** Blocks may leave while prefill is still running. */
  readonly isProgressive: boolean
  /** `equal`: both sides need the same TP size. `mapped`: whole ratios are mapped by head slices. */
  readonly tensorParallel: 'single' | 'equal' | 'mapped'
  /** Highest number of KV groups (1 = no hybrid allocator). */
  readonly groupCountMax: number
  readonly supportsDifferentBlockSizes: boolean
  /**
   * Tokens and heads of a block may come in another order on either side (`LBNHC` and `LBHNC`). Absent means
   * no. Added in CONTRACT_VERSION 5.
   */
  readonly supportsDifferentLayouts?: boolean
  readonly supportsLora: boolean
  readonly supportsMultimodal: boolean
  /** `n > 1` and list prompts within one request; when false the router splits or refuses them. */
  readonly supportsParallelSampling: boolean
  /**
   * Paths on which its transfers may travel (`config.path`); absent means `descriptors` alone. With another
   * one configured, the engine is refused at its start. Added in CONTRACT_VERSION 3.
   */
  readonly transferPaths?: readonly AgentPath[]
  /**
   * It keeps released KV in the history that it is given (`WorkerComponents.history`), and restores prompts that come back.
   * Absent means no. Added in CONTRACT_VERSION 4.
   */
  readonly keepsHistory?: boolean
  /**
   * It copies through host memory where the device's can't be registered (`bufferDevice: host`). Absent means
   * no: with that configured, the engine is refused at its start. Added in CONTRACT_VERSION 6.
   */
  readonly stagesInHostMemory?: boolean
}
