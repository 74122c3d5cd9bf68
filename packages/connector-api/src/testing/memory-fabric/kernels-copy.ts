/**
 * The copying kernels in plain JS: whole blocks to and from slabs, tokens from one block size and order
 * to another. Bytes and refusals are those of the native ones; test/kernels-copy.property.test.ts and
 * native-nixl compare the two. Called only by kernels.ts.
 */
import { ConnectorError } from '../../errors.ts'
import { assertSameTokens, blockBytes, isHeadMajor } from '../../kv-layout.ts'
import type { KvCacheLayout, KvMemory, KvRegionLayout, KvSlab, TokenRun } from '../../kv-memory.ts'
import { limits } from '../../limits.ts'

/** Bytes of memory that is neither freed nor on a device. */
function bytesOf(memory: KvMemory): Uint8Array {
  const { bytes } = memory
  if (bytes === null || bytes === undefined) throw new TypeError('memory is no host memory')
  if (bytes.byteLength === 0) throw new RangeError('memory was freed')
  return bytes
}

function assertRegion(region: KvRegionLayout): void {
  const { name, offsetBytes, blockSizeBytes, blockStrideBytes, blockCount } = region
  const numbers = [offsetBytes, blockSizeBytes, blockStrideBytes, blockCount]
  const end = offsetBytes + (blockCount - 1) * blockStrideBytes + blockSizeBytes
  const isRight =
    numbers.every((value) => Number.isSafeInteger(value) && value >= 0) &&
    blockSizeBytes > 0 &&
    blockStrideBytes >= blockSizeBytes &&
    blockCount > 0 &&
    end <= bytesOf(region.memory).byteLength
  if (!isRight) throw new RangeError(`region ${name}: its blocks reach beyond its memory`)
}

function assertBlocks(caches: KvCacheLayout, blockIds: Uint32Array): void {
  if (!(blockIds instanceof Uint32Array)) throw new TypeError('blockIds must be a Uint32Array')
  const max = limits.blocksPerPostMax
  if (blockIds.length > max) {
    const details = { limit: 'blocksPerPostMax', value: blockIds.length, max }
    throw new ConnectorError('ERR_KV_LIMIT', `${blockIds.length} blocks in one copy`, details)
  }
  if (caches.regions.length === 0) throw new RangeError('no region')
  caches.regions.forEach(assertRegion)
  const blockCount = Math.min(...caches.regions.map((region) => region.blockCount))
  for (const id of blockIds) {
    if (id >= blockCount) throw new RangeError(`block ${id} of ${blockCount}`)
  }
}

function assertDistinct(blockIds: Uint32Array): void {
  if (new Set(blockIds).size !== blockIds.length) throw new RangeError('a block is named twice')
}

/** Written blocks of two regions that share a byte would hold a mixture. */
function assertApart(caches: KvCacheLayout, blockIds: Uint32Array): void {
  const ranges = caches.regions.flatMap((region) =>
    [...blockIds].map((id) => ({ memory: region.memory, start: blockStart(region, id), region })),
  )
  for (const memory of new Set(ranges.map((range) => range.memory))) {
    const sorted = ranges.filter((range) => range.memory === memory)
    sorted.sort((a, b) => a.start - b.start)
    sorted.forEach(({ start }, index) => {
      const before = sorted[index - 1]
      if (before !== undefined && before.start + before.region.blockSizeBytes > start) {
        throw new RangeError('blocks of two regions overlap')
      }
    })
  }
}

const blockStart = (region: KvRegionLayout, id: number): number =>
  region.offsetBytes + id * region.blockStrideBytes

function blockOf(region: KvRegionLayout, id: number): Uint8Array {
  const start = blockStart(region, id)
  return bytesOf(region.memory).subarray(start, start + region.blockSizeBytes)
}

export function copyBlocks(
  direction: 'gather' | 'scatter',
  caches: KvCacheLayout,
  blockIds: Uint32Array,
  slab: KvSlab,
): void {
  assertBlocks(caches, blockIds)
  const { offsetBytes } = slab
  const end = offsetBytes + blockIds.length * blockBytes(caches)
  if (!Number.isSafeInteger(offsetBytes) || offsetBytes < 0) {
    throw new RangeError(`a slab can't start at ${offsetBytes}`)
  }
  if (end > bytesOf(slab.memory).byteLength) throw new RangeError('the slab is too short')
  if (direction === 'scatter') {
    assertDistinct(blockIds)
    assertApart(caches, blockIds)
  }
  for (const region of caches.regions) {
    if (region.memory !== slab.memory) continue
    for (const id of blockIds) {
      const start = blockStart(region, id)
      if (start < end && start + region.blockSizeBytes > offsetBytes) {
        throw new RangeError(`the slab overlaps block ${id}`)
      }
    }
  }
  let at = offsetBytes
  for (const id of blockIds) {
    for (const region of caches.regions) {
      const block = blockOf(region, id)
      const packed = bytesOf(slab.memory).subarray(at, at + block.length)
      if (direction === 'gather') packed.set(block)
      else block.set(packed)
      at += block.length
    }
  }
}

/** Tokens that lie together in one source and in one target block. */
interface Piece {
  readonly from: number
  readonly to: number
  readonly fromSlot: number
  readonly toSlot: number
  readonly tokenCount: number
}

function piecesOf(from: TokenRun, to: TokenRun, tokenCount: number): Piece[] {
  const pieces: Piece[] = []
  for (let token = 0; token < tokenCount;) {
    const source = (from.firstToken ?? 0) + token
    const target = (to.firstToken ?? 0) + token
    const fromSlot = source % from.caches.blockTokens
    const toSlot = target % to.caches.blockTokens
    const count = Math.min(
      tokenCount - token,
      from.caches.blockTokens - fromSlot,
      to.caches.blockTokens - toSlot,
    )
    pieces.push({
      from: from.blockIds[(source - fromSlot) / from.caches.blockTokens]!,
      to: to.blockIds[(target - toSlot) / to.caches.blockTokens]!,
      fromSlot,
      toSlot,
      tokenCount: count,
    })
    token += count
  }
  return pieces
}

function assertRun(run: TokenRun, tokenCount: number): void {
  const { caches, blockIds, firstToken = 0 } = run
  if (!Number.isSafeInteger(caches.blockTokens) || caches.blockTokens <= 0) {
    throw new RangeError(`blocks of ${caches.blockTokens} tokens`)
  }
  assertBlocks(caches, blockIds)
  const isRight = [firstToken, tokenCount].every(
    (value) => Number.isSafeInteger(value) && value >= 0,
  )
  if (!isRight || firstToken + tokenCount > blockIds.length * caches.blockTokens) {
    throw new RangeError(`tokens ${firstToken} + ${tokenCount} of ${blockIds.length} blocks`)
  }
}

/** A source block may touch only the one target block that all its tokens go to, in the same region. */
function assertNoForeignOverlap(from: TokenRun, to: TokenRun, pieces: readonly Piece[]): void {
  const targetsOf = new Map<number, Set<number>>()
  for (const piece of pieces) {
    targetsOf.set(piece.from, (targetsOf.get(piece.from) ?? new Set()).add(piece.to))
  }
  const targets = new Set(pieces.map((piece) => piece.to))
  from.caches.regions.forEach((source, sourceIndex) => {
    to.caches.regions.forEach((target, targetIndex) => {
      if (source.memory !== target.memory) return
      for (const [id, own] of targetsOf) {
        const start = blockStart(source, id)
        for (const other of targets) {
          const otherStart = blockStart(target, other)
          const isApart =
            start >= otherStart + target.blockSizeBytes ||
            otherStart >= start + source.blockSizeBytes
          const isInPlace = sourceIndex === targetIndex && own.size === 1 && own.has(other)
          if (!isApart && !isInPlace) {
            throw new RangeError(`source block ${id} overlaps target block ${other}`)
          }
        }
      }
    })
  })
}

export function relayoutTokens(from: TokenRun, to: TokenRun, tokenCount: number): void {
  assertRun(from, tokenCount)
  assertRun(to, tokenCount)
  assertSameTokens(from.caches, to.caches)
  assertDistinct(to.blockIds)
  assertApart(to.caches, to.blockIds)
  const pieces = piecesOf(from, to, tokenCount)
  assertNoForeignOverlap(from, to, pieces)
  // Also where nothing overlaps: copies cost a test nothing.
  const moves = from.caches.regions.flatMap((region, index) =>
    pieces.map((piece) => ({
      piece,
      source: Uint8Array.from(blockOf(region, piece.from)),
      target: blockOf(to.caches.regions[index]!, piece.to),
    })),
  )
  for (const { piece, source, target } of moves)
    movePiece(from.caches, to.caches, piece, source, target)
}

function movePiece(
  from: KvCacheLayout,
  to: KvCacheLayout,
  piece: Piece,
  source: Uint8Array,
  target: Uint8Array,
): void {
  const heads = isHeadMajor(from.layout) || isHeadMajor(to.layout) ? from.kvHeadCount : 1
  const rowBytes = source.length / from.blockTokens / heads
  const rowOf = (caches: KvCacheLayout, slot: number, head: number) =>
    isHeadMajor(caches.layout) ? head * caches.blockTokens + slot : slot * heads + head
  for (let head = 0; head < heads; head += 1) {
    for (let index = 0; index < piece.tokenCount; index += 1) {
      const start = rowOf(from, piece.fromSlot + index, head) * rowBytes
      const row = source.subarray(start, start + rowBytes)
      target.set(row, rowOf(to, piece.toSlot + index, head) * rowBytes)
    }
  }
}
