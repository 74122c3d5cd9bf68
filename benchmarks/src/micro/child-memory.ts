/**
 * The memory of the agent's child: same layout and content as the bare loop's (native/bare_loop.cc).
 * Target memory holds a pattern, an initiator's a constant, so that a wrong or stray byte is seen.
 */
import type { KvMemory } from '@kvferry/connector-api'
import { micro } from './settings.ts'

const words = (memory: KvMemory): Uint32Array => {
  const bytes = memory.bytes as Uint8Array
  return new Uint32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4)
}

/** Touches every page, too: a page that does not exist yet would be paid for inside a measurement. */
export function fillUntouched(memory: KvMemory): void {
  ;(memory.bytes as Uint8Array).fill(micro.untouchedByte)
}

export function fillPattern(memory: KvMemory): void {
  const target = words(memory)
  for (let i = 0; i < target.length; i++) target[i] = Math.imul(i, micro.patternFactor)
}

/** Block ids of `count` descriptors from the `first` on: every second block, so that none merges. */
export function scatteredIds(first: number, count: number): Uint32Array {
  return Uint32Array.from({ length: count }, (_, i) => 2 * (first + i))
}

/** Index of the first wrong word after the first `blockCount` descriptors were read; null = all right. */
export function findWrongWord(memory: KvMemory, blockCount: number): number | null {
  const found = words(memory)
  const wordsPerBlock = micro.descriptorSizeBytes / 4
  const untouched = (micro.untouchedByte * 0x01010101) >>> 0
  for (let i = 0; i < found.length; i++) {
    const block = Math.floor(i / wordsPerBlock)
    const isMoved = block % 2 === 0 && block < 2 * blockCount
    const expected = isMoved ? Math.imul(i, micro.patternFactor) >>> 0 : untouched
    if (found[i] !== expected) return i
  }
  return null
}
