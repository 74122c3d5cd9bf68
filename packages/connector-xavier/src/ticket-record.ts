/** What a producer keeps of one ticket beside its state. */
import {
  ConnectorError,
  asRequestId,
  blockKeyCount,
  type AnyConnectorError,
  type BlockKeys,
  type HistoryOffer,
  type RequestId,
  type Timer,
} from '@kvferry/connector-api'
import {
  hasOpenPosts,
  type ConsumerPeer,
  type PromptFacts,
  type WritePart,
  type WriteSource,
} from '@kvferry/connector-api/remote-writes'
import type { Ticket } from './handoff.ts'
import type { TicketState } from './ticket-state.ts'

export interface TicketRecord {
  readonly ticket: Ticket
  readonly requestId: RequestId
  /** Null until its request has ended with KV. */
  source: WriteSource | null
  /** Under which the history may keep its blocks, from the first on; none where nothing is kept. */
  keys: BlockKeys
  /** Its blocks hold what consumers are to have: at once, or when the snapshot is whole. */
  isPublished: boolean
  /** The claimant's load. */
  part: TicketPart | null
  /** Loads that were withdrawn before they came, by `lateKey`. */
  readonly withdrawn: Set<string>
  timer: Timer | null
  state: TicketState
}

export const noKeys: BlockKeys = new Uint8Array()

export const announced = (ticket: Ticket, requestId: RequestId): TicketRecord => ({
  ...{
    ticket,
    requestId,
    source: null,
    keys: noKeys,
    isPublished: false,
    part: null,
    withdrawn: new Set(),
    timer: null,
  },
  state: { kind: 'announced', claimant: null, isReading: false, isReleased: false, isGone: false },
})

/** All of its prompt's KV. */
export const sourceOf = (
  requestId: RequestId,
  prompt: PromptFacts,
  blockIds: Uint32Array,
): WriteSource => ({
  ...{ requestId, prompt, blockIds: [...blockIds] },
  ...{ tokenEnd: prompt.tokenCount, isComplete: true, fence: null },
})

/** What history may keep of it. */
export function offerOf({ keys, source }: TicketRecord): HistoryOffer {
  return { keys, blockIds: Uint32Array.from(source!.blockIds.slice(0, blockKeyCount(keys))) }
}

/** WRITEs into blocks of this consumer are open. */
export const isWrittenTo = ({ part }: TicketRecord, peer: ConsumerPeer): boolean =>
  part !== null && part.peer === peer && hasOpenPosts(part)

export interface TicketPart extends WritePart {
  readonly transfer: TicketRecord
}

/** Nothing is held for this ticket: it is over, or never was. The two can't be told apart, and needn't be. */
export function noTicket(): AnyConnectorError {
  const message = 'the producer holds nothing for this ticket'
  // Which request it was for only the consumer knows; it puts its own there.
  return new ConnectorError('ERR_KV_LEASE_EXPIRED', message, { requestId: asRequestId('') })
}

export function othersTicket(): AnyConnectorError {
  const reason = 'the ticket is another consumer’s, or another load’s'
  return new ConnectorError('ERR_KV_UNAUTHORISED', reason, { reason })
}
