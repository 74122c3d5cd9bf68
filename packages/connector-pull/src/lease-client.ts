/**
 * The consumer's question for a lease, over the side channel. Called by consumer-worker.ts; turns every
 * answer, and every silence, into the load machine's event.
 */
import {
  ConnectorError,
  assertNever,
  type Association,
  type Clock,
  type Instant,
  type RequestId,
} from '@kvferry/connector-api'
import { asConnectorError } from '@kvferry/connector-api/protocol'
import type { LoadEvent } from './load-state.ts'
import {
  decodeLeaseAnswer,
  encodeLeaseQuestion,
  messageKinds,
  type LeaseAnswer,
} from './messages.ts'

/** Renews the lease for this load. Never rejects. */
export async function askForLease(
  clock: Clock,
  association: Association,
  load: { readonly requestId: RequestId; readonly remoteId: RequestId; readonly loadId: number },
): Promise<LoadEvent> {
  const { engineId } = association.peer
  const sentAt = clock.now()
  try {
    const question = encodeLeaseQuestion({ requestId: load.remoteId, loadId: load.loadId })
    const answer = await association.request(messageKinds.renew, question)
    return leaseEvent(decodeLeaseAnswer(answer, engineId), sentAt, load.requestId)
  } catch (cause) {
    const context = { operation: 'renew lease', peer: engineId }
    return { kind: 'lease-silence', error: asConnectorError(cause, context) }
  }
}

function leaseEvent(answer: LeaseAnswer, sentAt: Instant, requestId: RequestId): LoadEvent {
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
