/**
 * Everything that the core needs from outside, injected: real ones on the core's own thread
 * (`nixl-ports.ts`), in-memory ones inline (`memory-ports.ts`). The core closes what it was given.
 */
import type {
  Clock,
  ConnectorFactory,
  KvKernels,
  KvMemory,
  KvMemoryAllocator,
  Logger,
  Metrics,
  ProcessTable,
  Random,
  SideChannel,
  TransferAgent,
} from '@kvferry/connector-api'

import type { CoreConfig } from './core-messages.ts'
import type { PauseThread } from './step-end.ts'

/** Only with a connector; an engine that does all alone has none of it. */
export interface TransferPorts {
  readonly factory: ConnectorFactory
  /** One per rank. */
  readonly agents: readonly TransferAgent[]
  readonly sideChannel: SideChannel
  /** Null where the system has none. */
  readonly processes: ProcessTable | null
}

export interface CorePorts {
  /** With the connector's options as its factory completed them. */
  readonly config: CoreConfig
  readonly agentKind: 'nixl' | 'memory'
  readonly clock: Clock
  /** Null where the core has no thread of its own. */
  readonly pause: PauseThread | null
  readonly random: Random
  readonly logger: Logger
  readonly metrics: Metrics & { text(): Promise<string> }
  /** For the KV. */
  readonly allocator: KvMemoryAllocator
  /** Host memory that the kernels reach beside it: tiers, staging. The same one where the KV lies on the host. */
  readonly hostAllocator: KvMemoryAllocator
  readonly kernels: KvKernels
  readonly transfer: TransferPorts | null
  /** What UCX says it uses; empty without NIXL. */
  transports(): readonly string[]
  addressOf(memory: KvMemory): string | null
}
