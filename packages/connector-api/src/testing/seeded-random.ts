/**
 * A random source that repeats: the same seed gives the same sequence on every machine. For simulation
 * and tests only; `bytes` is not fit for secrets. Forks are independent of how much their parent is
 * used afterwards, so a new draw in one component doesn't shift the schedule of another.
 */
import type { Random } from '../random.ts'

export interface SeededRandom extends Random {
  /** Uniform in 0 … `bound` - 1. @throws RangeError unless `bound` is an integer of 1 … 2^32. */
  integer(bound: number): number
  /** True with this probability. */
  chance(probability: number): boolean
  /** A source of its own; the same label from the same parent state gives the same source. */
  fork(label: string): SeededRandom
}

/** Spreads any number over 32 bits (murmur3's finaliser). */
function mix(value: number): number {
  let h = value | 0
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b)
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35)
  return (h ^ (h >>> 16)) >>> 0
}

/** sfc32: 128 bits of state, passes PractRand; small and quick in 32-bit arithmetic. */
function create(state: Uint32Array): SeededRandom {
  function next(): number {
    const sum = (state[0]! + state[1]! + state[3]!) >>> 0
    state[3] = state[3]! + 1
    state[0] = state[1]! ^ (state[1]! >>> 9)
    state[1] = state[2]! + (state[2]! << 3)
    state[2] = ((state[2]! << 21) | (state[2]! >>> 11)) + sum
    return sum
  }
  for (let round = 0; round < 12; round += 1) next()

  const uniform = (): number => (next() * 2 ** 21 + (next() >>> 11)) / 2 ** 53
  return {
    uniform,
    bytes(count) {
      const bytes = new Uint8Array(count)
      for (let index = 0; index < count; index += 4) {
        const word = next()
        // Writes past the end of a typed array are ignored.
        for (let byte = 0; byte < 4; byte += 1) bytes[index + byte] = word >>> (8 * byte)
      }
      return bytes
    },
    integer(bound) {
      if (!Number.isInteger(bound) || bound < 1 || bound > 2 ** 32) {
        throw new RangeError(`bound: ${bound}`)
      }
      return Math.floor(uniform() * bound)
    },
    chance: (probability) => uniform() < probability,
    fork(label) {
      let hash = 0
      for (let index = 0; index < label.length; index += 1) {
        hash = mix(hash ^ label.charCodeAt(index))
      }
      return create(Uint32Array.of(next(), next(), hash, label.length))
    },
  }
}

/** @param seed any finite number; its integer part and its fraction both count. */
export function createSeededRandom(seed: number): SeededRandom {
  if (!Number.isFinite(seed)) throw new RangeError(`seed: ${seed}`)
  const words = new Uint32Array(Float64Array.of(seed).buffer)
  return create(Uint32Array.of(mix(words[0]!), mix(words[1]! + 1), 0x9e3779b9, 1))
}
