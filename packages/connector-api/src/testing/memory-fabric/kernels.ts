/**
 * The kernels over KV memory in plain JS, bit-identical with the native ones (test/vectors/kernels.json).
 * Seeded content makes every byte of a cache checkable without keeping a copy of it.
 */
import type { KvCacheLayout, KvKernels, KvRegionLayout, TokenSlots } from '../../kv-memory.ts'
import { fillWords, hashWords, register, slotBase } from './hash64.ts'
import { copyBlocks, relayoutTokens } from './kernels-copy.ts'

/** Bytes of one token in one region's block. @throws RangeError unless a multiple of 8. */
function slotSizeBytes(caches: KvCacheLayout, region: KvRegionLayout): number {
  const size = region.blockSizeBytes / caches.blockTokens
  if (!Number.isInteger(size) || size <= 0 || size % 8 !== 0) {
    throw new RangeError(`region ${region.name}: ${size} bytes a token is no multiple of 8`)
  }
  return size
}

function assertSlots(caches: KvCacheLayout, slots: TokenSlots): void {
  const { blockIds, offsets } = slots
  if (!(blockIds instanceof Uint32Array) || !(offsets instanceof Uint32Array)) {
    throw new TypeError('slots: blockIds and offsets must be Uint32Array')
  }
  if (blockIds.length !== offsets.length) {
    throw new TypeError(`slots: ${blockIds.length} blockIds, ${offsets.length} offsets`)
  }
  const blockCount = Math.min(...caches.regions.map((region) => region.blockCount))
  blockIds.forEach((id, index) => {
    if (id >= blockCount) throw new RangeError(`slot ${index}: block ${id} of ${blockCount}`)
    if (offsets[index]! >= caches.blockTokens) {
      throw new RangeError(`slot ${index}: offset ${offsets[index]} of ${caches.blockTokens}`)
    }
  })
}

/** Calls `visit` with each slot's words in each region; changes to them are stored when `isWriting`. */
function forEachSlot(
  caches: KvCacheLayout,
  slots: TokenSlots,
  isWriting: boolean,
  visit: (halves: Uint32Array, wordCount: number, slot: number, regionIndex: number) => void,
): void {
  caches.regions.forEach((region, regionIndex) => {
    const size = slotSizeBytes(caches, region)
    const { bytes } = region.memory
    if (bytes === null || bytes.byteLength === 0) {
      throw new TypeError(`region ${region.name}: memory is freed or not host memory`)
    }
    const copy = new Uint32Array(size / 4)
    const copyBytes = new Uint8Array(copy.buffer)
    for (let slot = 0; slot < slots.blockIds.length; slot += 1) {
      const start =
        region.offsetBytes +
        slots.blockIds[slot]! * region.blockStrideBytes +
        slots.offsets[slot]! * size
      const isAligned = (bytes.byteOffset + start) % 4 === 0
      if (isAligned) {
        const halves = new Uint32Array(bytes.buffer, bytes.byteOffset + start, size / 4)
        visit(halves, size / 8, slot, regionIndex)
      } else {
        copyBytes.set(bytes.subarray(start, start + size))
        visit(copy, size / 8, slot, regionIndex)
        if (isWriting) bytes.set(copyBytes, start)
      }
    }
  })
}

/** Adds the 64-bit `register` to digest `slot`. */
function addToDigest(digests: Uint32Array, slot: number): void {
  const low = digests[2 * slot]! + (register[0]! >>> 0)
  digests[2 * slot] = low
  digests[2 * slot + 1] = digests[2 * slot + 1]! + register[1]! + (low > 0xffffffff ? 1 : 0)
}

const halvesOf = (values: BigUint64Array): Uint32Array =>
  new Uint32Array(values.buffer, values.byteOffset, 2 * values.length)

function assertSeeds(seeds: BigUint64Array): void {
  if (!(seeds instanceof BigUint64Array)) throw new TypeError('seeds must be BigUint64Array')
}

export function createKernels(): KvKernels {
  return {
    async fill(caches, slots, seeds) {
      assertSeeds(seeds)
      assertSlots(caches, slots)
      if (seeds.length !== slots.blockIds.length) {
        throw new TypeError(`${seeds.length} seeds for ${slots.blockIds.length} slots`)
      }
      const digests = new BigUint64Array(seeds.length)
      const digestHalves = halvesOf(digests)
      const seedHalves = halvesOf(seeds)
      forEachSlot(caches, slots, true, (halves, wordCount, slot, regionIndex) => {
        slotBase(seedHalves[2 * slot]! | 0, seedHalves[2 * slot + 1]! | 0, regionIndex)
        fillWords(halves, wordCount, register[0]!, register[1]!)
        hashWords(halves, wordCount, regionIndex)
        addToDigest(digestHalves, slot)
      })
      return digests
    },
    async digest(caches, slots) {
      assertSlots(caches, slots)
      const digests = new BigUint64Array(slots.blockIds.length)
      const digestHalves = halvesOf(digests)
      forEachSlot(caches, slots, false, (halves, wordCount, slot, regionIndex) => {
        hashWords(halves, wordCount, regionIndex)
        addToDigest(digestHalves, slot)
      })
      return digests
    },
    async expect(caches, seeds) {
      assertSeeds(seeds)
      const digests = new BigUint64Array(seeds.length)
      const digestHalves = halvesOf(digests)
      const seedHalves = halvesOf(seeds)
      caches.regions.forEach((region, regionIndex) => {
        const halves = new Uint32Array(slotSizeBytes(caches, region) / 4)
        for (let slot = 0; slot < seeds.length; slot += 1) {
          slotBase(seedHalves[2 * slot]! | 0, seedHalves[2 * slot + 1]! | 0, regionIndex)
          fillWords(halves, halves.length / 2, register[0]!, register[1]!)
          hashWords(halves, halves.length / 2, regionIndex)
          addToDigest(digestHalves, slot)
        }
      })
      return digests
    },
    async gather(caches, blockIds, into) {
      copyBlocks('gather', caches, blockIds, into)
    },
    async scatter(from, caches, blockIds) {
      copyBlocks('scatter', caches, blockIds, from)
    },
    async relayout(from, to, tokenCount) {
      relayoutTokens(from, to, tokenCount)
    },
  }
}
