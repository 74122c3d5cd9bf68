/**
 * 64-bit arithmetic for the kernels in 32-bit halves: BigInt is some twenty times too slow for content
 * of many megabytes. Results of more than 32 bits come back in `register`, low half first, because a
 * returned pair would be an allocation per word. Called only by kernels.ts.
 */

/** Low and high half of the last 64-bit result. */
export const register = new Int32Array(2)

const goldenLow = 0x7f4a7c15 | 0
const goldenHigh = 0x9e3779b9 | 0
const mixALow = 0x1ce4e5b9 | 0
const mixAHigh = 0xbf58476d | 0
const mixBLow = 0x133111eb | 0
const mixBHigh = 0x94d049bb | 0
const regionLow = 0x6659fd93 | 0
const regionHigh = 0xd6e8feb8 | 0
const hashLow = 0x1e98df25 | 0
const hashHigh = 0x9fb21c65 | 0

/** High 32 bits of the unsigned product. */
function multiplyHigh(a: number, b: number): number {
  const aLow = a & 0xffff
  const aHigh = a >>> 16
  const bLow = b & 0xffff
  const bHigh = b >>> 16
  const carry = Math.imul(aLow, bLow) >>> 16
  const middle = (Math.imul(aHigh, bLow) + carry) | 0
  const cross = (Math.imul(aLow, bHigh) + (middle & 0xffff)) | 0
  return (Math.imul(aHigh, bHigh) + (middle >>> 16) + (cross >>> 16)) | 0
}

/** High half of a 64-bit product; the low half is `Math.imul(aLow, bLow)`. */
const productHigh = (aLow: number, aHigh: number, bLow: number, bHigh: number): number =>
  (multiplyHigh(aLow, bLow) + Math.imul(aHigh, bLow) + Math.imul(aLow, bHigh)) | 0

/** 1 when `sum`, the wrapped result of adding `term`, overflowed 32 bits. */
const carryOf = (sum: number, term: number): number => (sum >>> 0 < term >>> 0 ? 1 : 0)

/** The finaliser of splitmix64, without the addition before it. */
function finalise(low: number, high: number): void {
  let zLow = low ^ ((low >>> 30) | (high << 2))
  let zHigh = high ^ (high >>> 30)
  let top = productHigh(zLow, zHigh, mixALow, mixAHigh)
  let bottom = Math.imul(zLow, mixALow)
  zLow = bottom ^ ((bottom >>> 27) | (top << 5))
  zHigh = top ^ (top >>> 27)
  top = productHigh(zLow, zHigh, mixBLow, mixBHigh)
  bottom = Math.imul(zLow, mixBLow)
  register[0] = bottom ^ ((bottom >>> 31) | (top << 1))
  register[1] = top ^ (top >>> 31)
}

/** splitmix64 of one value. */
export function splitmix64(low: number, high: number): void {
  const sum = (low + goldenLow) | 0
  finalise(sum, (high + goldenHigh + carryOf(sum, goldenLow)) | 0)
}

/** `splitmix64(seed ^ (regionIndex + 1) * 0xD6E8FEB86659FD93)`: where a slot's content starts. */
export function slotBase(seedLow: number, seedHigh: number, regionIndex: number): void {
  const index = regionIndex + 1
  const low = Math.imul(index, regionLow)
  const high = productHigh(index, 0, regionLow, regionHigh)
  splitmix64(seedLow ^ low, seedHigh ^ high)
}

/** Word j = `splitmix64(base + j * 0x9E3779B97F4A7C15)`, little-endian, `wordCount` 64-bit words. */
export function fillWords(
  halves: Uint32Array,
  wordCount: number,
  baseLow: number,
  baseHigh: number,
): void {
  let low = baseLow
  let high = baseHigh
  for (let index = 0; index < 2 * wordCount; index += 2) {
    low = (low + goldenLow) | 0
    high = (high + goldenHigh + carryOf(low, goldenLow)) | 0
    finalise(low, high)
    halves[index] = register[0]!
    halves[index + 1] = register[1]!
  }
}

/** `h = splitmix64(regionIndex + 1)`; per word `h = (h ^ w) * K; h ^= h >> 29`; `splitmix64(h)`. */
export function hashWords(halves: Uint32Array, wordCount: number, regionIndex: number): void {
  splitmix64(regionIndex + 1, 0)
  let low = register[0]!
  let high = register[1]!
  for (let index = 0; index < 2 * wordCount; index += 2) {
    const xLow = low ^ halves[index]!
    const xHigh = high ^ halves[index + 1]!
    const top = productHigh(xLow, xHigh, hashLow, hashHigh)
    const bottom = Math.imul(xLow, hashLow)
    low = bottom ^ ((bottom >>> 29) | (top << 3))
    high = top ^ (top >>> 29)
  }
  splitmix64(low, high)
}
