/**
 * The path `slabs`: many small pieces as few large transfers. A slab is a staging buffer that the agent
 * registered at its start. For a WRITE the initiator gathers pieces of its side into a slab of its own,
 * WRITEs it into a slab that the target lent to it, and the target's agent scatters them; for a READ the
 * target's agent gathers on request, and the initiator READs and scatters. Several are under way at once.
 *
 * Who may do what (architecture §6): only the initiator transfers, so that a transfer has ended when the
 * initiator says so; only the target's agent touches the target's blocks. A lent slab is out of service
 * until its borrower gives it back or its process is proven to have ended.
 *
 * On the wire a slab says by itself where its bytes belong (slab-plan.ts): its payload in the order of the
 * stream (`TransferSide`), without padding, then a list of the target's pieces. The target checks that list
 * against its registered memory; nothing else is remembered of a transfer there.
 */
import type { TransferPath } from './config.ts'
import type { KvMemory } from './kv-memory.ts'
import { limits } from './limits.ts'

/** How the bytes of one transfer travel. `TransferPath` (config.ts) is what a user may ask for. */
export type AgentPath = 'descriptors' | 'slabs' | 'ipc'

/** The slabs of an agent. Memory of `2 × count × sizeBytes`: those it fills itself, and those it lends. */
export interface SlabOptions {
  /** Bytes of one, `limits.slabSizeBytesMin` … `slabSizeBytesMax`; a multiple of 8. Default `limits.slabSizeBytes`. */
  readonly sizeBytes?: number
  /** How many for each direction, 1 … `limits.slabCountMax`. Default `limits.slabCount`. */
  readonly count?: number
}

/**
 * The slabs of an engine's agent; null: none. With `auto` only where they may win, so that nobody pays their memory in
 * vain: in host memory where the smallest block of a region is small, on a GPU always. `slabs` has them in any case.
 * Which path a transfer then takes is measured, for each peer.
 */
export function slabsFor(
  path: TransferPath,
  regions: readonly { readonly blockSizeBytes: number }[],
  memory: KvMemory['kind'] = 'host',
): SlabOptions | null {
  if (path === 'slabs') return {}
  if (path !== 'auto') return null
  if (memory === 'cuda') return {}
  const smallest = Math.min(...regions.map(({ blockSizeBytes }) => blockSizeBytes))
  return smallest < limits.slabBlockSizeBytesMax ? {} : null
}

/** @throws RangeError that names the field. */
export function resolveSlabs(options: SlabOptions): Required<SlabOptions> {
  const { sizeBytes = limits.slabSizeBytes, count = limits.slabCount } = options
  const { slabSizeBytesMin: min, slabSizeBytesMax: max } = limits
  if (!Number.isInteger(sizeBytes / 8) || sizeBytes < min || sizeBytes > max) {
    throw new RangeError(`slabs.sizeBytes: ${sizeBytes} is no multiple of 8 in ${min} … ${max}`)
  }
  if (!Number.isInteger(count) || count < 1 || count > limits.slabCountMax) {
    throw new RangeError(`slabs.count: ${count} is not in 1 … ${limits.slabCountMax}`)
  }
  return { sizeBytes, count }
}
