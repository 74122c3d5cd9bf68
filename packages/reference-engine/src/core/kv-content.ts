/**
 * What the KV of a token is made of, and how the next token comes out of it. Pure, and cheap enough to
 * run on the step thread: 32-bit arithmetic only. A seed depends on the token's whole prefix and on
 * nothing else, so equal prefixes have equal KV in every engine, however it was computed or moved.
 */
const seedLow = 0x9e3779b9
const seedHigh = 0x7f4a7c15

/** The finaliser of MurmurHash3: a bijection of 32-bit integers. */
function mix32(value: number): number {
  let hash = value
  hash ^= hash >>> 16
  hash = Math.imul(hash, 0x85ebca6b)
  hash ^= hash >>> 13
  hash = Math.imul(hash, 0xc2b2ae35)
  return hash ^ (hash >>> 16)
}

/**
 * Writes `seeds[from … to)`: `seeds[i]` is a chained 64-bit hash of tokens `0 … i`. Needs `seeds[from-1]`.
 * One token is three Feistel rounds over the chain's two halves: a bijection for each token, and
 * different for different tokens, so two prefixes collide only as 64-bit hashes do.
 */
export function extendSeeds(
  seeds: BigUint64Array,
  tokens: Uint8Array,
  from: number,
  to: number,
): void {
  // Little-endian, as on every platform that this engine supports.
  const halves = new Uint32Array(seeds.buffer, seeds.byteOffset, seeds.length * 2)
  let low = from === 0 ? seedLow : (halves[2 * from - 2] as number)
  let high = from === 0 ? seedHigh : (halves[2 * from - 1] as number)
  for (let index = from; index < to; index++) {
    low ^= mix32((high + Math.imul((tokens[index] as number) + 1, 0x9e3779b1)) | 0)
    high ^= mix32((low + 0x7f4a7c15) | 0)
    low ^= mix32((high + 0x94d049bb) | 0)
    halves[2 * index] = low
    halves[2 * index + 1] = high
  }
}

/** A sum of 64-bit digests modulo 2^64, kept as two numbers because BigInt sums are slow. */
export interface DigestSum {
  readonly low: number
  readonly high: number
}

export const emptyDigestSum: DigestSum = { low: 0, high: 0 }

const twoTo32 = 4_294_967_296

/** Adds `digests[from … to)`; at most 2^20 at a time, so that the halves stay exact. */
export function addDigests(
  sum: DigestSum,
  digests: BigUint64Array,
  from: number,
  to: number,
): DigestSum {
  const halves = new Uint32Array(digests.buffer, digests.byteOffset, digests.length * 2)
  let low = sum.low
  let high = sum.high
  for (let index = from; index < to; index++) {
    low += halves[2 * index] as number
    high += halves[2 * index + 1] as number
  }
  high += Math.floor(low / twoTo32)
  return { low: low % twoTo32, high: high % twoTo32 }
}

const mask64 = (1n << 64n) - 1n

function splitmix64(value: bigint): bigint {
  let z = (value + 0x9e3779b97f4a7c15n) & mask64
  z = ((z ^ (z >> 30n)) * 0xbf58476d1ce4e5b9n) & mask64
  z = ((z ^ (z >> 27n)) * 0x94d049bb133111ebn) & mask64
  return z ^ (z >> 31n)
}

const firstPrintable = 0x20n
const printableCount = 95n

/** The token after the prefix with this seed, from the digests of the KV bytes that were read for it. */
export function nextToken(seed: bigint, sum: DigestSum): number {
  const digest = (BigInt(sum.high) << 32n) | BigInt(sum.low)
  return Number(firstPrintable + (splitmix64(seed ^ splitmix64(digest)) % printableCount))
}
