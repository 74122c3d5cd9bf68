/**
 * The content kernels over all ranks of an engine, head by head: a head's content follows from the token and
 * the head's place in the model, and a token depends on the bytes of all. So it does not show how many ranks
 * the heads are shared out to, and a head that went to another's place is seen. Used by forward.ts.
 */
import {
  isHeadMajor,
  type KvCacheLayout,
  type KvKernels,
  type TokenSlots,
} from '@kvferry/connector-api'
import { wordSizeBytes } from '../model-presets.ts'

const saltStep = 0x9e3779b97f4a7c15n

export type ContentKernels = Pick<KvKernels, 'fill' | 'digest' | 'expect'>

/** One rank's shares of each token: heads, or as few of them together as make whole words. */
interface RankShares {
  /** With each share of a token as a slot of its own. */
  readonly caches: KvCacheLayout
  readonly count: number
  /** Counted over the model. */
  readonly first: number
  /** The slot of a share of the token at `offset` of its block. */
  slotOf(offset: number, share: number): number
}

/**
 * `ranks`: their caches, in order; block ids mean the same on all. Where heads come before tokens, each has
 * whole words.
 */
export function shardKernels(kernels: KvKernels, ranks: readonly KvCacheLayout[]): ContentKernels {
  const shares = ranks.map(sharesOf)
  if (shares.length === 1 && shares[0]!.count === 1) return kernels
  return {
    fill: (_, slots, seeds) =>
      sumOver(shares, (share) =>
        kernels.fill(share.caches, slotsOf(share, slots), seedsOf(share, seeds)),
      ),
    digest: (_, slots) =>
      sumOver(shares, (share) => kernels.digest(share.caches, slotsOf(share, slots))),
    expect: (_, seeds) =>
      sumOver(shares, (share) => kernels.expect(share.caches, seedsOf(share, seeds))),
  }
}

function sharesOf(caches: KvCacheLayout, rank: number): RankShares {
  const { blockTokens, kvHeadCount, regions } = caches
  const headSizeBytes = regions[0]!.blockSizeBytes / blockTokens / kvHeadCount
  const count = headSizeBytes % wordSizeBytes === 0 ? kvHeadCount : kvHeadCount / 2
  const slotOf = isHeadMajor(caches.layout)
    ? (offset: number, share: number) => share * blockTokens + offset
    : (offset: number, share: number) => offset * count + share
  return {
    caches: { ...caches, blockTokens: blockTokens * count },
    ...{ count, first: rank * count, slotOf },
  }
}

/** Token by token, in each share by share. */
function slotsOf({ count, slotOf }: RankShares, { blockIds, offsets }: TokenSlots): TokenSlots {
  const slots = {
    blockIds: new Uint32Array(count * blockIds.length),
    offsets: new Uint32Array(count * blockIds.length),
  }
  let at = 0
  for (let token = 0; token < blockIds.length; token++) {
    for (let share = 0; share < count; share++) {
      slots.blockIds[at] = blockIds[token]!
      slots.offsets[at] = slotOf(offsets[token]!, share)
      at++
    }
  }
  return slots
}

/** The same content in two shares would hide that one was written to the place of both. */
function seedsOf({ count, first }: RankShares, seeds: BigUint64Array): BigUint64Array {
  const salted = new BigUint64Array(count * seeds.length)
  const salts = halvesOf(
    BigUint64Array.from({ length: count }, (_, share) => BigInt(first + share) * saltStep),
  )
  const [from, to] = [halvesOf(seeds), halvesOf(salted)]
  let at = 0
  for (let token = 0; token < from.length; token += 2) {
    for (let share = 0; share < salts.length; share += 2) {
      to[at] = from[token]! ^ salts[share]!
      to[at + 1] = from[token + 1]! ^ salts[share + 1]!
      at += 2
    }
  }
  return salted
}

/**
 * A token's digest: of its shares the sum modulo 2^64, in halves, because sums of BigInt are slow. Each has
 * a weight of its own, or two that were exchanged would make the same sum.
 */
async function sumOver(
  ranks: readonly RankShares[],
  run: (rank: RankShares) => Promise<BigUint64Array>,
): Promise<BigUint64Array> {
  const parts = (await Promise.all(ranks.map(run))).map(halvesOf)
  const sums = new BigUint64Array(parts[0]!.length / 2 / ranks[0]!.count)
  const total = halvesOf(sums)
  for (const [rank, { count, first }] of ranks.entries()) {
    const part = parts[rank]!
    let at = 0
    for (let token = 0; token < total.length; token += 2) {
      for (let share = first; share < first + count; share++) {
        const weight = 2 * share + 1
        const low = total[token]! + weight * part[at]!
        total[token] = low
        total[token + 1] =
          total[token + 1]! + weight * part[at + 1]! + Math.floor(low / 4_294_967_296)
        at += 2
      }
    }
  }
  return sums
}

const halvesOf = (values: BigUint64Array): Uint32Array =>
  new Uint32Array(values.buffer, values.byteOffset, 2 * values.length)
