/**
 * Which ids and bytes a prompt's tokens have, and where they lie in a request's blocks. A prompt is a number:
 * what it has at a position follows from that number, the position and (the bytes) the rank, so a longer
 * prompt of the same number begins with the shorter one, and whoever holds the bytes can tell whose they are.
 */
import type { KvCacheLayout, KvKernels, TokenSlots } from '../../index.ts'

const seedsPerPrompt = 100_000
const promptsPerRank = 1_000_000_000

/** Seeds of tokens `start` … `end - 1`; every prompt, position and rank has its own. */
export const seedsOf = (prompt: number, start: number, end: number, rank = 0): BigUint64Array =>
  BigUint64Array.from({ length: end - start }, (_, index) =>
    BigInt((rank * promptsPerRank + prompt) * seedsPerPrompt + start + index),
  )

/** Ids of the first `count` tokens, answer included: no two prompts begin alike. */
export const tokensOf = (prompt: number, count: number): Uint32Array =>
  Uint32Array.from({ length: count }, (_, at) => prompt + at)

export function slotsOf(
  blocks: Uint32Array,
  start: number,
  end: number,
  blockTokens: number,
): TokenSlots {
  const positions = Array.from({ length: end - start }, (_, index) => start + index)
  return {
    blockIds: Uint32Array.from(positions, (at) => blocks[Math.floor(at / blockTokens)]!),
    offsets: Uint32Array.from(positions, (at) => at % blockTokens),
  }
}

/** Tokens `start` … `end - 1` of a prompt in a request's blocks. */
export interface ContentRange {
  readonly blocks: Uint32Array
  readonly prompt: number
  readonly start: number
  readonly end: number
  readonly rank: number
}

/** Writes them, before it returns. */
export function fillContent(kernels: KvKernels, caches: KvCacheLayout, range: ContentRange): void {
  const { blocks, prompt, start, end, rank } = range
  const slots = slotsOf(blocks, start, end, caches.blockTokens)
  void kernels.fill(caches, slots, seedsOf(prompt, start, end, rank))
}

/** The positions that hold other bytes, as they are when this is called. */
export async function wrongPositions(
  kernels: KvKernels,
  caches: KvCacheLayout,
  { blocks, prompt, start, end, rank }: ContentRange,
): Promise<number[]> {
  const found = kernels.digest(caches, slotsOf(blocks, start, end, caches.blockTokens))
  const expected = await kernels.expect(caches, seedsOf(prompt, start, end, rank))
  const wrong: number[] = []
  ;(await found).forEach((digest, index) => {
    if (digest !== expected[index]) wrong.push(start + index)
  })
  return wrong
}
