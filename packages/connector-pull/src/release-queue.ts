/**
 * Tells producer ranks that nothing (more) will be read of a lease. A release waits for the handshake with its
 * producer, because only then can the handoff's signature be checked: on a forged one somebody else's
 * blocks would be freed. Bounded; what is dropped or lost costs the producer the rest of the lease. Owned
 * by consumer-worker.ts.
 */
import type { WorkerComponents } from '@kvferry/connector-api'
import { asConnectorError } from '@kvferry/connector-api/protocol'
import type { PeerLink } from './connection-state.ts'
import { countForgery, forgeryError } from './handoff-check.ts'
import { pullLimits } from './limits.ts'
import { encodeLeaseQuestion, messageKinds } from './messages.ts'
import type { Offer } from './load-record.ts'
import type { PeerConnections } from './peer-connections.ts'
import type { PeerKey } from './peer-listener.ts'
import type { PullCounters } from './pull-counters.ts'

interface Release {
  readonly offer: Offer
  /** Of the producer. */
  readonly rank: number
}

export class ReleaseQueue {
  readonly #components: WorkerComponents
  readonly #counters: PullCounters
  readonly #tpRank: number
  readonly #waiting = new Map<Release, PeerKey>()
  #inFlight = 0

  constructor(components: WorkerComponents, counters: PullCounters, tpRank: number) {
    this.#components = components
    this.#counters = counters
    this.#tpRank = tpRank
  }

  /** Never throws. `peers` starts the handshake when there is none. */
  add(peers: PeerConnections, offer: Offer, rank: number): void {
    if (this.#waiting.size + this.#inFlight >= pullLimits.releasesInFlightMax) {
      this.#counters.add('releasesFailed')
      return
    }
    this.#start(peers, { offer, rank })
  }

  onReady(key: PeerKey, link: PeerLink): void {
    for (const release of this.#take(key)) void this.#deliver(release, link)
  }

  onFailed(key: PeerKey): void {
    this.#take(key).forEach(() => this.#counters.add('releasesFailed'))
  }

  /** The connection that it waited for is gone; a new one is made. */
  onForgotten(peers: PeerConnections, key: PeerKey): void {
    for (const release of this.#take(key)) this.#start(peers, release)
  }

  #start(peers: PeerConnections, release: Release): void {
    const answer = peers.linkTo(release.offer.handoff.remote, release.rank)
    switch (answer.kind) {
      case 'ready':
        void this.#deliver(release, answer.link)
        return
      case 'waiting':
        this.#waiting.set(release, answer.key)
        return
      case 'unavailable':
        this.#counters.add('releasesFailed')
        return
    }
  }

  #take(key: PeerKey): Release[] {
    const taken = [...this.#waiting].filter(([, of]) => of === key).map(([release]) => release)
    for (const release of taken) this.#waiting.delete(release)
    return taken
  }

  async #deliver({ offer }: Release, link: PeerLink): Promise<void> {
    const { handoff, loadId } = offer
    const forgery = forgeryError(handoff, link)
    if (forgery !== null) {
      countForgery(this.#components, this.#counters)
      this.#components.logger.warn(`not released: ${forgery.message}`, { code: forgery.code })
      return
    }
    const { requestId, engineId } = handoff.remote
    this.#inFlight += 1
    try {
      const body = encodeLeaseQuestion({ rank: this.#tpRank, requestId, loadId })
      await link.association.request(messageKinds.release, body)
      this.#counters.add('releasesSent')
    } catch (cause) {
      const error = asConnectorError(cause, { operation: 'release lease', peer: engineId })
      this.#counters.add('releasesFailed')
      this.#components.logger.debug(`release lost: ${error.message}`, { code: error.code })
    } finally {
      this.#inFlight -= 1
    }
  }
}
