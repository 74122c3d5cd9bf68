/**
 * The copies of one restore: layer after layer, in each the blocks of one tier together, no copy larger
 * than the bound. So a layer is complete as early as it can be, and each copy reads one kind of memory. Pure.
 */
import { noDestination } from '@kvferry/connector-api'
import type { BlockCopy } from '../copies/block-copies.ts'

/** Where a stored block is. */
export interface StoredBlock {
  readonly tier: 'device' | 'host'
  readonly slot: number
}

export interface RestoreRequest {
  /** In prompt order. */
  readonly blocks: readonly StoredBlock[]
  /** Engine block for each of them, or `noDestination`. Never more than blocks. */
  readonly destinations: Uint32Array
  /** Bytes of one block in each region. */
  readonly regionSizes: readonly number[]
  readonly batchSizeBytesMax: number
}

export interface RestorePlan {
  readonly copies: readonly BlockCopy[]
  readonly deviceBlockCount: number
  readonly hostBlockCount: number
}

interface TierBlocks {
  readonly tier: 'device' | 'host'
  readonly slots: number[]
  readonly destinations: number[]
}

export function planRestore(request: RestoreRequest): RestorePlan {
  const { regionSizes, batchSizeBytesMax } = request
  const device: TierBlocks = { tier: 'device', slots: [], destinations: [] }
  const host: TierBlocks = { tier: 'host', slots: [], destinations: [] }
  request.destinations.forEach((destination, position) => {
    if (destination === noDestination) return
    const { tier, slot } = request.blocks[position]!
    const list = tier === 'device' ? device : host
    list.slots.push(slot)
    list.destinations.push(destination)
  })
  const blockCount = device.slots.length + host.slots.length
  const copies: BlockCopy[] = []
  for (let firstRegion = 0; firstRegion < regionSizes.length && blockCount > 0;) {
    const endRegion = groupEnd(regionSizes, firstRegion, batchSizeBytesMax / blockCount)
    const size = regionSizes.slice(firstRegion, endRegion).reduce((sum, bytes) => sum + bytes, 0)
    const partLength = Math.max(1, Math.floor(batchSizeBytesMax / size))
    for (const { tier, slots, destinations } of [device, host]) {
      for (let first = 0; first < slots.length; first += partLength) {
        const part = (list: number[]) => Uint32Array.from(list.slice(first, first + partLength))
        const blocks = { fromBlocks: part(slots), toBlocks: part(destinations) }
        copies.push({ from: tier, to: 'engine', ...blocks, firstRegion, endRegion })
      }
    }
    firstRegion = endRegion
  }
  return {
    copies,
    deviceBlockCount: device.slots.length,
    hostBlockCount: host.slots.length,
  }
}

/** As many regions as fit, at least one. */
function groupEnd(sizes: readonly number[], first: number, sizeMax: number): number {
  let end = first + 1
  let size = sizes[first]!
  while (end < sizes.length && size + sizes[end]! <= sizeMax) {
    size += sizes[end]!
    end += 1
  }
  return end
}
