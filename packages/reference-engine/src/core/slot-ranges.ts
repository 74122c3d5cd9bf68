/**
 * Lists of token ranges, turned into the parallel arrays that kernels take, and arithmetic on them. One
 * kernel call a step serves all requests; the answers come back in the order of the ranges. Pure.
 */
import type { TokenSlots } from '@kvferry/connector-api'
import type { EngineRequest } from './request-state.ts'

/** Tokens `[start, end)` of one request. */
export interface SlotRange {
  readonly request: EngineRequest
  readonly start: number
  readonly end: number
}

export function countSlots(ranges: readonly SlotRange[]): number {
  return ranges.reduce((sum, { start, end }) => sum + end - start, 0)
}

/** Where the tokens of `ranges` lie. */
export function toSlots(ranges: readonly SlotRange[], blockTokens: number): TokenSlots {
  const count = countSlots(ranges)
  const blockIds = new Uint32Array(count)
  const offsets = new Uint32Array(count)
  let slot = 0
  for (const { request, start, end } of ranges) {
    let index = Math.floor(start / blockTokens)
    let offset = start - index * blockTokens
    for (let position = start; position < end; position++) {
      blockIds[slot] = request.blocks[index] as number
      offsets[slot] = offset
      slot++
      offset++
      if (offset === blockTokens) {
        offset = 0
        index++
      }
    }
  }
  return { blockIds, offsets }
}

/** The seeds of the tokens of `ranges`. */
export function toSeeds(ranges: readonly SlotRange[]): BigUint64Array {
  const seeds = new BigUint64Array(countSlots(ranges))
  let slot = 0
  for (const { request, start, end } of ranges) {
    seeds.set(request.seeds.subarray(start, end), slot)
    slot += end - start
  }
  return seeds
}

/** Keeps what digests of these slots must be. `expected` is in the order of `ranges`. */
export function rememberExpected(ranges: readonly SlotRange[], expected: BigUint64Array): void {
  let slot = 0
  for (const { request, start, end } of ranges) {
    request.expected.set(expected.subarray(slot, slot + end - start), start)
    request.isExpectedKnown.fill(1, start, end)
    slot += end - start
  }
}

/** The parts of `range` whose expected digests are neither known nor about to be (`[fillStart, fillEnd)`). */
export function unknownParts(range: SlotRange, fillStart: number, fillEnd: number): SlotRange[] {
  const { request } = range
  const parts: SlotRange[] = []
  let start = -1
  for (let position = range.start; position <= range.end; position++) {
    const isUnknown =
      position < range.end &&
      request.isExpectedKnown[position] === 0 &&
      (position < fillStart || position >= fillEnd)
    if (isUnknown && start < 0) start = position
    if (!isUnknown && start >= 0) {
      parts.push({ request, start, end: position })
      start = -1
    }
  }
  return parts
}

/** Block indexes in `range` with a digest that differs from the expected one, in order. */
export function findMismatches(
  range: SlotRange,
  digests: BigUint64Array,
  firstSlot: number,
  blockTokens: number,
): number[] {
  const { request, start, end } = range
  const found: number[] = []
  // As halves, because reading a BigInt per slot would cost more than hashing it.
  const actual = toHalves(digests)
  const expected = toHalves(request.expected)
  for (let position = start; position < end; position++) {
    const half = 2 * (firstSlot + position - start)
    const isEqual =
      actual[half] === expected[2 * position] && actual[half + 1] === expected[2 * position + 1]
    if (isEqual) continue
    const index = Math.floor(position / blockTokens)
    if (found.at(-1) !== index) found.push(index)
  }
  return found
}

const toHalves = (values: BigUint64Array): Uint32Array =>
  new Uint32Array(values.buffer, values.byteOffset, values.length * 2)
