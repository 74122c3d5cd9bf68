/**
 * The address space of the fabric. As treacherous as a real one: freeing memory stops nobody who still
 * has its address. Freed memory is poisoned with 0xde, and the next allocation of that size gets it
 * again, so a late write is seen as another owner's corruption. Views held by JS are detached.
 */
import { ConnectorError } from '../../errors.ts'
import type { KvMemory, KvMemoryAllocator } from '../../kv-memory.ts'
import { fabricLimits } from './fabric-limits.ts'

const alignmentBytes = 2 ** 21
const firstAddress = 2 ** 46
export const poison = 0xde

/** One range of addresses; it outlives the KvMemory that stands for it. */
export interface Allocation {
  readonly address: number
  readonly sizeBytes: number
  /** Replaced when a view is detached; never keep it. */
  bytes: Uint8Array
  /** Regions registered in it now. */
  registrationCount: number
}

export interface AddressSpace {
  readonly allocator: KvMemoryAllocator
  /** The allocation behind memory of this space that is not freed; undefined for any other. */
  allocationOf(memory: KvMemory): Allocation | undefined
  /** Where a range lies, freed or not; undefined when it isn't mapped as a whole. */
  resolve(address: number, lengthBytes: number): Allocation | undefined
}

/** Moves the content to a new buffer, which leaves every view of the old one empty. */
function detach(bytes: Uint8Array): Uint8Array {
  const buffer = bytes.buffer as ArrayBuffer
  return new Uint8Array(structuredClone(buffer, { transfer: [buffer] }))
}

function createBytes(sizeBytes: number): Uint8Array {
  const limit = { limit: 'allocationSizeBytesMax', value: sizeBytes }
  const max = fabricLimits.allocationSizeBytesMax
  if (sizeBytes > max) {
    throw new ConnectorError('ERR_KV_LIMIT', `allocation of ${sizeBytes} bytes`, { ...limit, max })
  }
  try {
    return new Uint8Array(sizeBytes)
  } catch (cause) {
    const message = `the system has no ${sizeBytes} bytes`
    throw new ConnectorError('ERR_KV_LIMIT', message, { ...limit, max }, { cause })
  }
}

export function createAddressSpace(): AddressSpace {
  const allocations: Allocation[] = []
  const freed = new Map<number, Allocation[]>()
  const owned = new WeakMap<KvMemory, Allocation>()
  let nextAddress = firstAddress

  function take(sizeBytes: number): Allocation {
    const reused = freed.get(sizeBytes)?.pop()
    if (reused !== undefined) {
      reused.bytes.fill(0)
      return reused
    }
    const bytes = createBytes(sizeBytes)
    const allocation = { address: nextAddress, sizeBytes, bytes, registrationCount: 0 }
    // A gap of one page, so that running past an end is seen.
    nextAddress += (Math.floor(sizeBytes / alignmentBytes) + 1) * alignmentBytes
    allocations.push(allocation)
    return allocation
  }

  function free(memory: KvMemory): void {
    const allocation = owned.get(memory)
    if (allocation === undefined) return
    if (allocation.registrationCount > 0) {
      throw new ConnectorError('ERR_KV_BUSY', 'memory holds a registered region', {
        what: 'memory',
        transfers: 0,
      })
    }
    owned.delete(memory)
    allocation.bytes = detach(allocation.bytes)
    allocation.bytes.fill(poison)
    const sameSize = freed.get(allocation.sizeBytes) ?? []
    sameSize.push(allocation)
    freed.set(allocation.sizeBytes, sameSize)
  }

  return {
    allocator: {
      allocate({ sizeBytes }) {
        if (!Number.isSafeInteger(sizeBytes) || sizeBytes <= 0) {
          throw new RangeError(`sizeBytes: ${sizeBytes}`)
        }
        const allocation = take(sizeBytes)
        const memory: KvMemory = {
          kind: 'host',
          sizeBytes,
          bytes: allocation.bytes,
          free: () => free(memory),
        }
        owned.set(memory, allocation)
        return memory
      },
    },
    allocationOf: (memory) => owned.get(memory),
    resolve(address, lengthBytes) {
      let low = 0
      let high = allocations.length
      while (low < high) {
        const middle = (low + high) >> 1
        if (allocations[middle]!.address <= address) low = middle + 1
        else high = middle
      }
      const found = allocations[low - 1]
      return found !== undefined && address + lengthBytes <= found.address + found.sizeBytes
        ? found
        : undefined
    },
  }
}
