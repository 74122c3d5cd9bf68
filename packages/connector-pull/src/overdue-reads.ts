/**
 * Brings READs that are past their deadline to an end. Over some transports a READ ends only while its target
 * polls, and its producer may not know of it any more: it was stopped for long, and the question that would
 * have told it was lost with its connection. So the producer of an overdue READ is asked for a handshake
 * again, at once and at intervals, which makes it poll for a while. That renews no lease, and what is answered
 * decides nothing. One question per producer at a time. Owned by load-table.ts.
 */
import type { Timer, WorkerComponents } from '@kvferry/connector-api'
import {
  type PeerFacts,
  asConnectorError,
  addressOf,
  lifeKey,
  recordOverdue,
} from '@kvferry/connector-api/protocol'
import { exchange } from './handshake.ts'
import { pullLimits } from './limits.ts'
import { blockCountOf, type LoadRecord } from './load-record.ts'
import type { RemoteRequest } from './metadata.ts'

interface OverduePeer {
  readonly reads: Set<LoadRecord>
  timer: Timer | null
}

export class OverdueReads {
  readonly #components: WorkerComponents
  readonly #facts: PeerFacts
  readonly #peers = new Map<string, OverduePeer>()

  constructor(components: WorkerComponents, facts: PeerFacts) {
    this.#components = components
    this.#facts = facts
  }

  /** Counts it, and asks its producer from now on. */
  add(read: LoadRecord): void {
    const { requestId, handoff } = read.order
    const { remote } = handoff
    const facts = { requestId, engineId: remote.engineId, blockCount: blockCountOf(read.order) }
    recordOverdue(this.#components, 'read', facts)
    const key = lifeKey(remote)
    const known = this.#peers.get(key)
    if (known !== undefined) {
      known.reads.add(read)
      return
    }
    const peer: OverduePeer = { reads: new Set([read]), timer: null }
    this.#peers.set(key, peer)
    void this.#ask(peer, remote)
  }

  /** It has a final status. Harmless for one that was never overdue. */
  end(read: LoadRecord): void {
    const key = lifeKey(read.order.handoff.remote)
    const peer = this.#peers.get(key)
    peer?.reads.delete(read)
    if (peer === undefined || peer.reads.size > 0) return
    peer.timer?.stop()
    this.#peers.delete(key)
  }

  /** Asks no more. */
  close(): void {
    for (const { timer } of this.#peers.values()) timer?.stop()
    this.#peers.clear()
  }

  async #ask(peer: OverduePeer, remote: RemoteRequest): Promise<void> {
    const { clock, config, logger, sideChannel } = this.#components
    const lookup = addressOf(remote, config.peers)
    const timeoutMs = pullLimits.overdueReadAskMs
    try {
      if (lookup.kind === 'known') {
        const association = await sideChannel.connect(lookup.address, { timeoutMs })
        await exchange(this.#components, association, this.#facts, timeoutMs)
      }
    } catch (cause) {
      const { code } = asConnectorError(cause, { operation: 'wake', peer: remote.engineId })
      logger.debug('the producer of an overdue READ is not to be reached', { code })
    }
    if (this.#peers.get(lifeKey(remote)) !== peer) return
    peer.timer = clock.after(pullLimits.overdueReadAskMs, () => void this.#ask(peer, remote))
  }
}
