/** What a worker says, once for each peer and direction, when descriptors to it turn out to be emulated. */
import type { PeerIdentity, WorkerComponents } from '../index.ts'
import type { Counters } from './counters.ts'
import type { EmulatedDirection } from './path-chooser.ts'

/** The counter of the workers' stats; the metric is `kv_emulated_peers_total`. */
export const emulationCounter = 'peersEmulated'

const cause =
  'the library found no direct way to this GPU memory and copies through the host, without a word: no cuda_ipc or RDMA in UCX_TLS, memory that the peer has imported or that is virtual, containers that do not share the IPC namespace or see each other’s GPUs, or a READ within one GPU'
const remedy =
  'let UCX find cuda_ipc (UCX_TLS unset), let both processes see both GPUs, or take the path ipc or slabs; "kvferry-nixl doctor --rates" measures all paths'

/** Nothing to say: null. */
export function reportEmulation(
  worker: {
    readonly components: WorkerComponents
    readonly counters: Counters<typeof emulationCounter>
  },
  peer: { readonly identity: PeerIdentity; readonly rank: number },
  found: EmulatedDirection | null,
): void {
  if (found === null) return
  const { direction, gigabytesPerSecond, isAvoided } = found
  const { logger, metrics } = worker.components
  worker.counters.add(emulationCounter)
  metrics.add('kv_emulated_peers_total', 1, { direction })
  const { engineId } = peer.identity
  const what = direction === 'read' ? 'READs' : 'WRITEs'
  const rate = gigabytesPerSecond.toFixed(2)
  logger.warn(`${what} by descriptors run at ${rate} GB/s, as software emulation does`, {
    ...{ engineId, rank: peer.rank, direction, gigabytesPerSecond, isAvoided, cause, remedy },
  })
}
