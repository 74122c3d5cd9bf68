/**
 * Which ids and bytes a prompt's tokens have, and where they lie in a request's blocks. A prompt is a number:
 * what it has at a position follows from that number, the position and (the bytes) the head, so a longer
 * prompt of the same number begins with the shorter one, whoever holds the bytes can tell whose they are,
 * and it does not show how many ranks the heads are shared out to.
 */
import { isHeadMajor, type KvCacheLayout, type KvKernels, type TokenSlots } from '../../index.ts'

const seedsPerPrompt = 100_000
const promptsPerHead = 1_000_000_000

/** Seeds of tokens `start` … `end - 1`; every prompt, position and head has its own. */
export const seedsOf = (prompt: number, start: number, end: number, head = 0): BigUint64Array =>
  BigUint64Array.from({ length: end - start }, (_, index) =>
    BigInt((head * promptsPerHead + prompt) * seedsPerPrompt + start + index),
  )

/** Ids of the first `count` tokens, answer included: no two prompts begin alike. */
export const tokensOf = (prompt: number, count: number): Uint32Array =>
  Uint32Array.from({ length: count }, (_, at) => prompt + at)

/** One rank's share of the model's heads, from `firstHead` on, and where it keeps them. */
export interface RankContent {
  readonly caches: KvCacheLayout
  readonly firstHead: number
}

/** Tokens `start` … `end - 1` of a prompt in a request's blocks. */
export interface ContentRange {
  readonly blocks: Uint32Array
  readonly prompt: number
  readonly start: number
  readonly end: number
}

/** Writes them, before it returns. */
export function fillContent(kernels: KvKernels, content: RankContent, range: ContentRange): void {
  for (const { caches, slots, seeds } of headsOf(content, range)) {
    void kernels.fill(caches, slots, seeds)
  }
}

/** The positions that hold other bytes, as they are when this is called. */
export async function wrongPositions(
  kernels: KvKernels,
  content: RankContent,
  range: ContentRange,
): Promise<number[]> {
  const wrong = new Set<number>()
  const digests = headsOf(content, range).map(({ caches, slots, seeds }) =>
    Promise.all([kernels.digest(caches, slots), kernels.expect(caches, seeds)]),
  )
  for (const [found, expected] of await Promise.all(digests)) {
    found.forEach((digest, index) => {
      if (digest !== expected[index]) wrong.add(range.start + index)
    })
  }
  return [...wrong].sort((a, b) => a - b)
}

/** Head by head; a token of one head is what kernels take for a slot. */
function headsOf({ caches, firstHead }: RankContent, { blocks, prompt, start, end }: ContentRange) {
  const { blockTokens, kvHeadCount } = caches
  const inHeads = { ...caches, blockTokens: blockTokens * kvHeadCount, kvHeadCount: 1 }
  const positions = Array.from({ length: end - start }, (_, index) => start + index)
  const blockIds = Uint32Array.from(positions, (at) => blocks[Math.floor(at / blockTokens)]!)
  return Array.from({ length: kvHeadCount }, (_, head) => {
    const offsetOf = isHeadMajor(caches.layout)
      ? (slot: number) => head * blockTokens + slot
      : (slot: number) => slot * kvHeadCount + head
    const offsets = Uint32Array.from(positions, (at) => offsetOf(at % blockTokens))
    const slots: TokenSlots = { blockIds, offsets }
    return { caches: inHeads, slots, seeds: seedsOf(prompt, start, end, firstHead + head) }
  })
}
