/**
 * What a producer rank keeps of one transfer: the request whose KV is to be written, and what consumer ranks
 * registered for it, in whatever order they come. Records and the questions about them; rendezvous-table.ts
 * acts.
 */
import {
  ConnectorError,
  type AnyConnectorError,
  type ReadyFence,
  type Timer,
} from '@kvferry/connector-api'
import { closed, matchingRanks, type PeerFacts } from '@kvferry/connector-api/protocol'
import {
  isOpen,
  isSamePrompt,
  lateKey,
  otherPrompt,
  type ConsumerPeer,
  type Registration,
  type WritePart,
  type WriteSource,
} from '@kvferry/connector-api/remote-writes'
import type { SourceContext, SourceState } from './source-state.ts'

/** The request on this engine. */
export interface SourceRecord extends WriteSource {
  /** In token order, as far as they were handed over. */
  blockIds: number[]
  /** Tokens whose KV is there once `fence` is signalled. */
  tokenEnd: number
  isComplete: boolean
  /** The engine has given it blocks, and computes. */
  isBegun: boolean
  fence: ReadyFence | null
  timer: Timer | null
  state: SourceState
}

/** What one consumer rank registered. */
export interface PartRecord extends WritePart {
  readonly transfer: Rendezvous
}

export interface Rendezvous {
  readonly transferId: string
  source: SourceRecord | null
  /** By consumer rank. */
  readonly parts: Map<number, PartRecord>
  /** Consumer ranks that need nothing. */
  readonly releasedRanks: Set<number>
  /** Registrations that were withdrawn before they came, by `lateKey`. */
  readonly withdrawn: Set<string>
  /** How many consumer ranks this rank writes to; null while no consumer is known. */
  expectedCount: number | null
  /** Why nothing begins any more; null while something may. */
  over: AnyConnectorError | null
  /** Forgets it. */
  retention: Timer | null
}

export const createRendezvous = (transferId: string): Rendezvous => ({
  ...{ transferId, source: null, parts: new Map(), releasedRanks: new Set() },
  ...{ withdrawn: new Set(), expectedCount: null, over: null, retention: null },
})

export function sourceContext(
  { parts, releasedRanks, expectedCount }: Rendezvous,
  leaseDurationMs: number,
): SourceContext {
  const records = [...parts.values()]
  const openCount = records.filter(isOpen).length
  // One that was given up may be asked for all the same: it is one part, not two.
  const releasedCount = [...releasedRanks].filter((rank) => !parts.has(rank)).length
  const endedCount = records.length - openCount + releasedCount
  return { openCount, endedCount, expectedCount, leaseDurationMs }
}

/** A consumer of `facts` has spoken about it. */
export function noteConsumer(
  rendezvous: Rendezvous,
  own: PeerFacts,
  rank: number,
  facts: PeerFacts,
): void {
  rendezvous.expectedCount ??= matchingRanks(rank, own.tpSize, facts.tpSize).length
}

/** Why a registration does not fit what is known of its transfer, or null; the same one may come twice. */
export function refusalOf(
  meeting: Rendezvous,
  registration: Registration,
  peer: ConsumerPeer,
): AnyConnectorError | null {
  const { over, source, parts, withdrawn } = meeting
  if (over !== null) return over
  if (source !== null && !isSamePrompt(registration, source)) return otherPrompt()
  if (withdrawn.has(lateKey(peer, registration))) return closed('registration')
  const { engineId, incarnation } = peer.identity
  const isOthers = [...parts.values()].some(
    ({ peer: { identity } }) =>
      identity.engineId !== engineId || identity.incarnation !== incarnation,
  )
  const known = parts.get(registration.rank)
  const isAnother = known !== undefined && known.registration.loadId !== registration.loadId
  if (!isOthers && !isAnother) return null
  const reason = 'another load is registered for this transfer'
  return new ConnectorError('ERR_KV_UNAUTHORISED', reason, { reason })
}
