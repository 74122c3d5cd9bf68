/**
 * Makes hostile bytes out of valid ones, for tests of whatever reads bytes from a peer: flips, cuts, splices
 * with other valid messages, repeats, and lies about lengths. Deterministic per seed and cheap, so that a
 * test can go through hundreds of thousands in seconds. Judges nothing.
 */
import { createSeededRandom } from './seeded-random.ts'

export interface ByteMutatorOptions {
  /** Valid messages; none of them is changed. */
  readonly corpus: readonly Uint8Array[]
  readonly seed: number
  /** No result is longer. Default 4,096. */
  readonly sizeBytesMax?: number
}

/** Values at which lengths, counts and ids go wrong. */
const edges = [0, 1, 0x7f, 0x80, 0xff, 0x100, 0x7fff, 0xffff, 0x1_0000, 0x7fff_ffff, 0xffff_ffff]

type Mutation = (bytes: Uint8Array, random: RandomSource) => Uint8Array

interface RandomSource {
  /** An integer in [0, bound). */
  below(bound: number): number
  pick<T>(of: readonly T[]): T
}

const join = (...parts: readonly Uint8Array[]): Uint8Array => {
  const whole = new Uint8Array(parts.reduce((size, part) => size + part.length, 0))
  let at = 0
  for (const part of parts) {
    whole.set(part, at)
    at += part.length
  }
  return whole
}

const flipBit: Mutation = (bytes, random) => {
  const at = random.below(bytes.length)
  bytes[at] = (bytes[at] ?? 0) ^ (1 << random.below(8))
  return bytes
}

const setByte: Mutation = (bytes, random) => {
  bytes[random.below(bytes.length)] = random.below(256)
  return bytes
}

/** Writes an edge value over one, two or four bytes, in either byte order, where a length may stand. */
const lieAboutLength: Mutation = (bytes, random) => {
  const sizeBytes = Math.min(random.pick([1, 2, 4]), bytes.length)
  const at = random.below(bytes.length - sizeBytes + 1)
  const value = random.pick(edges)
  const isBigEndian = random.below(2) === 0
  for (let index = 0; index < sizeBytes; index++) {
    const shift = isBigEndian ? sizeBytes - 1 - index : index
    bytes[at + index] = (value >>> (8 * shift)) & 0xff
  }
  return bytes
}

const truncate: Mutation = (bytes, random) => bytes.slice(0, random.below(bytes.length))

const remove: Mutation = (bytes, random) => {
  const start = random.below(bytes.length)
  return join(bytes.subarray(0, start), bytes.subarray(start + 1 + random.below(8)))
}

const insert: Mutation = (bytes, random) => {
  const at = random.below(bytes.length + 1)
  const added = Uint8Array.from({ length: 1 + random.below(8) }, () => random.below(256))
  return join(bytes.subarray(0, at), added, bytes.subarray(at))
}

const repeat: Mutation = (bytes, random) => {
  const start = random.below(bytes.length)
  const part = bytes.subarray(start, start + 1 + random.below(32))
  return join(bytes.subarray(0, start), part, bytes.subarray(start))
}

/** Each call gives the next hostile message; a small share of them is still valid. */
export function createByteMutator(options: ByteMutatorOptions): () => Uint8Array {
  const { corpus, seed, sizeBytesMax = 4_096 } = options
  if (corpus.length === 0) throw new RangeError('the corpus is empty')
  const source = createSeededRandom(seed)
  const below = (bound: number): number => Math.floor(source.uniform() * bound)
  const random: RandomSource = {
    below,
    pick: (of) => of[below(of.length)] as (typeof of)[number],
  }
  const splice: Mutation = (bytes) => {
    const other = random.pick(corpus)
    return join(bytes.subarray(0, below(bytes.length + 1)), other.subarray(below(other.length + 1)))
  }
  const mutations = [
    ...[flipBit, setByte, lieAboutLength, lieAboutLength],
    ...[truncate, remove, insert, repeat, splice],
  ]
  return () => {
    let bytes: Uint8Array = random.pick(corpus).slice()
    for (let count = 1 + below(3); count > 0 && bytes.length > 0; count--) {
      bytes = random.pick(mutations)(bytes, random)
    }
    return bytes.length > sizeBytesMax ? bytes.slice(0, sizeBytesMax) : bytes
  }
}
