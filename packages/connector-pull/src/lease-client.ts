/**
 * The consumer's question for its share of a lease, over the side channel. Called by read-table.ts; turns
 * every answer, and every silence, into the read machine's event.
 */
import {
  ConnectorError,
  assertNever,
  type Clock,
  type Instant,
  type RequestId,
} from '@kvferry/connector-api'
import { asConnectorError } from '@kvferry/connector-api/protocol'
import type { ReadRecord } from './load-record.ts'
import {
  decodeLeaseAnswer,
  encodeLeaseQuestion,
  messageKinds,
  type LeaseAnswer,
} from './messages.ts'
import type { ReadEvent } from './read-state.ts'

/** Renews the lease for this READ, of this engine's rank `tpRank`. Never rejects. */
export async function askForLease(
  clock: Clock,
  tpRank: number,
  { load, link }: ReadRecord,
): Promise<ReadEvent> {
  const { association } = link!
  const { engineId } = association.peer
  const { loadId, requestId, handoff } = load.order
  const sentAt = clock.now()
  try {
    const { requestId: remoteId } = handoff.remote
    const question = encodeLeaseQuestion({ rank: tpRank, requestId: remoteId, loadId })
    const answer = await association.request(messageKinds.renew, question)
    return leaseEvent(decodeLeaseAnswer(answer, engineId), sentAt, requestId)
  } catch (cause) {
    const context = { operation: 'renew lease', peer: engineId }
    return { kind: 'lease-silence', error: asConnectorError(cause, context) }
  }
}

function leaseEvent(answer: LeaseAnswer, sentAt: Instant, requestId: RequestId): ReadEvent {
  switch (answer.kind) {
    case 'granted':
      return { kind: 'lease-grant', sentAt, durationMs: answer.durationMs }
    case 'completed':
      return { kind: 'lease-complete' }
    case 'unknown': {
      const message = 'the producer does not hold these blocks any more'
      const error = new ConnectorError('ERR_KV_LEASE_EXPIRED', message, { requestId })
      return { kind: 'lease-refuse', error }
    }
    case 'claimed': {
      const reason = 'another load holds the lease'
      return {
        kind: 'lease-refuse',
        error: new ConnectorError('ERR_KV_UNAUTHORISED', reason, { reason }),
      }
    }
    default:
      return assertNever(answer)
  }
}
