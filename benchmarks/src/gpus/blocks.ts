/**
 * Which blocks a transfer moves. Even ids only, so that none are neighbours, in an order of its own on each side: the same as in
 * native/bare_loop.cc (`scatteredId`). Pure.
 */
export type Side = 'local' | 'remote'

/** Odd, so that each is a permutation of a count that is a power of two. */
const order: Readonly<Record<Side, bigint>> = { local: 0x9e3779b1n, remote: 0x85ebca6bn }

/** `count`: a power of two. */
export function scatteredIds(count: number, side: Side): Uint32Array {
  if (count < 1 || (count & (count - 1)) !== 0) throw new RangeError(`count: ${count}`)
  const mask = count - 1
  const step = Number(order[side] & BigInt(mask))
  return Uint32Array.from({ length: count }, (_, at) => 2 * (Math.imul(at, step) & mask))
}
