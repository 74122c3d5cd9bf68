/**
 * The consumer's side of a lease: asks the producer for it and gives it back, over the side channel.
 * Owned by consumer-worker.ts; turns every answer, and every silence, into the load machine's event.
 */
import {
  ConnectorError,
  assertNever,
  type Association,
  type Instant,
  type RequestId,
  type WorkerComponents,
} from '@kvferry/connector-api'
import { asConnectorError } from './failures.ts'
import { pullLimits } from './limits.ts'
import type { LoadEvent } from './load-state.ts'
import {
  decodeLeaseAnswer,
  encodeLeaseQuestion,
  messageKinds,
  type LeaseAnswer,
} from './messages.ts'
import type { RemoteRequest } from './metadata.ts'
import type { PullCounters } from './pull-counters.ts'

export class LeaseClient {
  readonly #components: WorkerComponents
  readonly #counters: PullCounters
  #releasesInFlight = 0

  constructor(components: WorkerComponents, counters: PullCounters) {
    this.#components = components
    this.#counters = counters
  }

  /** Renews the lease for this load. Never rejects. */
  async ask(
    association: Association,
    load: { readonly requestId: RequestId; readonly remoteId: RequestId; readonly loadId: number },
  ): Promise<LoadEvent> {
    const { engineId } = association.peer
    const sentAt = this.#components.clock.now()
    try {
      const question = encodeLeaseQuestion({ requestId: load.remoteId, loadId: load.loadId })
      const answer = await association.request(messageKinds.renew, question)
      return leaseEvent(decodeLeaseAnswer(answer, engineId), sentAt, load.requestId)
    } catch (cause) {
      const context = { operation: 'renew lease', peer: engineId }
      return { kind: 'lease-silence', error: asConnectorError(cause, context) }
    }
  }

  /** Tells the producer that nothing will be read. A lost release costs it the rest of the lease. */
  async release(remote: RemoteRequest, loadId: number): Promise<void> {
    if (this.#releasesInFlight >= pullLimits.releasesInFlightMax) {
      this.#counters.add('releasesFailed')
      return
    }
    this.#releasesInFlight += 1
    try {
      await this.#deliverRelease(remote, loadId)
      this.#counters.add('releasesSent')
    } catch (cause) {
      const error = asConnectorError(cause, { operation: 'release lease', peer: remote.engineId })
      this.#counters.add('releasesFailed')
      this.#components.logger.debug(`release lost: ${error.message}`, { code: error.code })
    } finally {
      this.#releasesInFlight -= 1
    }
  }

  async #deliverRelease(remote: RemoteRequest, loadId: number): Promise<void> {
    const { host, port, engineId, incarnation, requestId } = remote
    const association = await this.#components.sideChannel.connect({ host, port, engineId })
    const actual = association.peer.incarnation
    if (actual !== incarnation) {
      throw new ConnectorError('ERR_KV_WRONG_EPOCH', `${engineId} is another incarnation`, {
        engineId,
        expected: incarnation,
        actual,
      })
    }
    await association.request(messageKinds.release, encodeLeaseQuestion({ requestId, loadId }))
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
