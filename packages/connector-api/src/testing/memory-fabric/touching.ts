/**
 * Answers the question of architecture's rule on reuse from the fabric's own books: which posted transfers
 * may still touch a range of memory. For auditors; agents and connectors can't ask.
 */
import type { KvMemory } from '../../kv-memory.ts'
import type { FabricCore } from './fabric-core.ts'

export interface MemoryRange {
  readonly memory: KvMemory
  readonly offsetBytes: number
  readonly lengthBytes: number
}

export interface TouchingTransfer {
  readonly access: 'read' | 'write'
  /** Agent names. */
  readonly initiator: string
  readonly target: string
}

export function touchingTransfers(core: FabricCore, range: MemoryRange): TouchingTransfer[] {
  const allocation = core.space.allocationOf(range.memory)
  if (allocation === undefined) return []
  const start = allocation.address + range.offsetBytes
  const end = start + range.lengthBytes
  const found: TouchingTransfer[] = []
  for (const slab of core.leftBehind) {
    if (!slab.writes(start, end)) continue
    found.push({ access: 'write', initiator: slab.initiator.name, target: slab.target.name })
  }
  for (const { initiator, request } of core.open) {
    const { plan, direction, target } = request
    const touches = (addresses: ArrayLike<number>): boolean => {
      for (let piece = 0; piece < addresses.length; piece += 1) {
        const address = addresses[piece]!
        if (address < end && start < address + plan.lengths[piece]!) return true
      }
      return false
    }
    const names = { initiator: initiator.name, target: target.name }
    const isRead = direction === 'read'
    if (touches(isRead ? plan.localAddresses : plan.remoteAddresses)) {
      found.push({ access: 'write', ...names })
    }
    if (touches(isRead ? plan.remoteAddresses : plan.localAddresses)) {
      found.push({ access: 'read', ...names })
    }
  }
  return found
}
