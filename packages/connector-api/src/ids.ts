/**
 * Branded identifiers, so that two of them can't be swapped by accident. All are plain strings or
 * numbers at run time and travel as such; nothing here validates (codecs do, at the boundary).
 */
declare const brand: unique symbol
type Brand<T, Name extends string> = T & { readonly [brand]: Name }

/** Operator-chosen name of one engine (all its ranks), for example `p0`. */
export type EngineId = Brand<string, 'EngineId'>
/** One life of an engine: new at every start. Leases, handoffs and associations of an old one are void. */
export type Incarnation = Brand<string, 'Incarnation'>
/** The engine's own id of a request; producer and consumer have different ones for the same work. */
export type RequestId = Brand<string, 'RequestId'>
/** Key `"<ppRank>,<tpRank>"` of one worker within its engine. */
export type RankKey = Brand<string, 'RankKey'>

export const asEngineId = (value: string): EngineId => value as EngineId
export const asIncarnation = (value: string): Incarnation => value as Incarnation
export const asRequestId = (value: string): RequestId => value as RequestId
export const rankKey = (ppRank: number, tpRank: number): RankKey => `${ppRank},${tpRank}` as RankKey

/** Position of one worker. `tpSize`/`ppSize` are counts, the ranks 0-based. */
export interface Rank {
  readonly tpRank: number
  readonly tpSize: number
  readonly ppRank: number
  readonly ppSize: number
}
