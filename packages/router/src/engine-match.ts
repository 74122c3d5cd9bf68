/**
 * Whether a prefill and a decode engine can work together. Pure. The engines check the same and more in
 * their handshake; the router checks so that a wrong pair is refused before the first request, with both
 * values named. What an engine leaves unsaid is not compared.
 */
import type { EnginePeer } from './engine-peer.ts'

export interface Mismatch {
  readonly field: string
  readonly prefill: string
  readonly decode: string
}

const differ = (left: unknown, right: unknown) => left !== null && right !== null && left !== right

/** One is a whole multiple of the other. */
const isWholeRatio = (left: number, right: number): boolean =>
  Math.max(left, right) % Math.min(left, right) === 0

function canMap(left: number | null, right: number | null, doBothMap: boolean): boolean {
  if (left === null || right === null || left === right) return true
  return doBothMap && isWholeRatio(left, right)
}

const sameFields = ['connector', 'transferMode', 'dispatch', 'wireVersion', 'model'] as const

function findField(prefill: EnginePeer, decode: EnginePeer): keyof EnginePeer | null {
  if (prefill.role === 'consumer' || decode.role === 'producer') return 'role'
  const field = sameFields.find((name) => differ(prefill[name], decode[name]))
  if (field !== undefined) return field
  const both = [prefill, decode]
  const doMapBlocks = both.every(({ supportsDifferentBlockSizes }) => supportsDifferentBlockSizes)
  if (!canMap(prefill.blockTokens, decode.blockTokens, doMapBlocks)) return 'blockTokens'
  const doMapRanks = both.every(({ tensorParallel }) => tensorParallel === 'mapped')
  return canMap(prefill.tpSize, decode.tpSize, doMapRanks) ? null : 'tpSize'
}

/** The first reason why these two cannot work together, or null. */
export function findMismatch(prefill: EnginePeer, decode: EnginePeer): Mismatch | null {
  const field = findField(prefill, decode)
  if (field === null) return null
  return { field, prefill: String(prefill[field]), decode: String(decode[field]) }
}
