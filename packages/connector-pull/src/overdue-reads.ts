/**
 * Brings READs that are past their deadline to an end. Over some transports a READ ends only while its target
 * polls, and its producer may not know of it any more: it was stopped for long, and the question that would
 * have told it was lost with its connection. So the producer of an overdue READ is asked for a handshake
 * again, at once and at intervals, which makes it poll for a while. That renews no lease, and what is answered
 * decides nothing. One question per producer at a time. Owned by read-table.ts.
 */
import type { Timer, WorkerComponents } from '@kvferry/connector-api'
import {
  asConnectorError,
  addressOf,
  lifeKey,
  rankChannel,
  recordOverdue,
} from '@kvferry/connector-api/protocol'
import { exchange } from './handshake.ts'
import { pullLimits } from './limits.ts'
import { blocksOf, type ReadRecord } from './load-record.ts'
import type { HandshakeRequest } from './messages.ts'
import type { RemoteRequest } from './metadata.ts'

interface OverduePeer {
  readonly reads: Set<ReadRecord>
  timer: Timer | null
}

export class OverdueReads {
  readonly #components: WorkerComponents
  readonly #own: HandshakeRequest
  readonly #peers = new Map<string, OverduePeer>()

  /** `own`: what this rank says of itself. */
  constructor(components: WorkerComponents, own: HandshakeRequest) {
    this.#components = components
    this.#own = own
  }

  /** Counts it, and asks its producer from now on. */
  add(read: ReadRecord): void {
    const { order } = read.load
    const { remote } = order.handoff
    const blockCount = blocksOf(order).length
    recordOverdue(this.#components, 'read', {
      ...{ requestId: order.requestId, engineId: remote.engineId, blockCount },
    })
    const key = keyOf(read)
    const known = this.#peers.get(key)
    if (known !== undefined) {
      known.reads.add(read)
      return
    }
    const peer: OverduePeer = { reads: new Set([read]), timer: null }
    this.#peers.set(key, peer)
    void this.#ask(peer, remote, read.rank)
  }

  /** It has a final status. Harmless for one that was never overdue. */
  end(read: ReadRecord): void {
    const key = keyOf(read)
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

  async #ask(peer: OverduePeer, remote: RemoteRequest, rank: number): Promise<void> {
    const { clock, config, logger, sideChannel } = this.#components
    const lookup = addressOf(remote, config.peers)
    const timeoutMs = pullLimits.overdueReadAskMs
    try {
      if (lookup.kind === 'known') {
        const channel = rankChannel(sideChannel, rank)
        const association = await channel.connect(lookup.address, { timeoutMs })
        await exchange(this.#components, association, this.#own, timeoutMs)
      }
    } catch (cause) {
      const { code } = asConnectorError(cause, { operation: 'wake', peer: remote.engineId })
      logger.debug('the producer of an overdue READ is not to be reached', { code })
    }
    if (this.#peers.get(lifeKey(remote, rank)) !== peer) return
    const again = (): void => void this.#ask(peer, remote, rank)
    peer.timer = clock.after(pullLimits.overdueReadAskMs, again)
  }
}

const keyOf = ({ load, rank }: ReadRecord): string => lifeKey(load.order.handoff.remote, rank)
