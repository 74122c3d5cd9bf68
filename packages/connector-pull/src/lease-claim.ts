/**
 * Whose a lease is: one load of one life of a consumer, and how far each of its ranks is that reads from this
 * rank. Pure; what follows from it decides lease-state.ts.
 */
import type { EngineId, Incarnation } from '@kvferry/connector-api'

/** One life of a consumer. */
export interface Consumer {
  readonly engineId: EngineId
  readonly incarnation: Incarnation
}

/** One load of one life of a consumer: the same for all of its ranks. */
export interface Reader extends Consumer {
  readonly loadId: number
}

/** What one rank of the consumer reads from this rank. */
export interface Share {
  /** Of the consumer. */
  readonly rank: number
  /** Ranks of the consumer that have some of this rank's heads. */
  readonly count: number
}

/** One rank of a load that may still read. */
export interface Straggler {
  readonly reader: Reader
  readonly rank: number
}

/** `asked`: it may be read now. */
export type ShareStand = 'asked' | 'read' | 'released'

export interface Claim {
  readonly reader: Reader
  readonly shareCount: number
  /** By the consumer's rank; of one that is missing nothing has been heard. */
  readonly shares: Readonly<Record<number, ShareStand>>
}

export const isSame = (left: Reader, right: Reader): boolean =>
  left.engineId === right.engineId &&
  left.incarnation === right.incarnation &&
  left.loadId === right.loadId

/** Whether nobody has claimed it, or a load of this life of this consumer. */
export const isOpenTo = (claim: Claim | null, { engineId, incarnation }: Consumer): boolean =>
  claim === null || (claim.reader.engineId === engineId && claim.reader.incarnation === incarnation)

export const shareOf = ({ shares }: Claim, rank: number): ShareStand | null => shares[rank] ?? null

export const withShare = (
  claim: Claim | null,
  { reader, share }: { readonly reader: Reader; readonly share: Share },
  stand: ShareStand,
): Claim => ({
  reader,
  shareCount: share.count,
  shares: { ...claim?.shares, [share.rank]: stand },
})

export const hasRead = ({ shares }: Claim): boolean => Object.values(shares).includes('read')

/** Nobody reads any more, and nobody will. */
export function isClaimOver({ shares, shareCount }: Claim): boolean {
  const ended = Object.values(shares).filter((stand) => stand !== 'asked')
  return ended.length >= shareCount
}

/** The ranks that may read although the lease is over; null for those of which nothing has been heard. */
export function stragglersOf(claim: Claim | null): readonly (Straggler | null)[] {
  if (claim === null) return [null]
  const { reader, shares, shareCount } = claim
  const asked = Object.keys(shares)
    .map(Number)
    .filter((rank) => shares[rank] === 'asked')
    .map((rank) => ({ reader, rank }))
  return Object.keys(shares).length < shareCount ? [...asked, null] : asked
}
