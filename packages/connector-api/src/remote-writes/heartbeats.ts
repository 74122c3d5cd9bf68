/**
 * Keeps a producer's blocks for requests that wait on the consumer for room, and finds out that a producer
 * is silent, or has lost what it was asked for, long before a load's own deadline. One timer per link, of
 * the worker's own: an engine that takes no step loses nothing. Owned by consumer-worker.ts.
 */
import {
  ConnectorError,
  type AnyConnectorError,
  type Timer,
  type WorkerComponents,
} from '../index.ts'
import { asConnectorError, heartbeatIntervalMs, heartbeatPortions } from '../protocol/index.ts'
import { decodeHeartbeatReply, encodeHeartbeat } from './heartbeat-messages.ts'
import { writeLimits } from './limits.ts'
import type { PartRecord } from './load-record.ts'
import { kindOf } from './messages.ts'
import type { ProducerLink } from './producer-links.ts'
import type { Speaker } from './registration-client.ts'
import type { WriteCounters } from './write-counters.ts'

/** What a heartbeat asks for, and whom its answer concerns. */
export interface HeartbeatSource {
  keptOver(link: ProducerLink): string[]
  registeredOver(link: ProducerLink): PartRecord[]
  /** No answer, several times in a row. */
  onSilence(link: ProducerLink, error: AnyConnectorError): void
  /** The producer does not know the registration. */
  onForgotten(part: PartRecord, error: AnyConnectorError): void
  /** The producer computes or writes, for whomever. */
  onWork(link: ProducerLink): void
  /** The producer has computed what was offered, and keeps it until we have room. */
  onHeld(link: ProducerLink, transferId: string): void
}

export class Heartbeats {
  readonly #components: WorkerComponents
  readonly #counters: WriteCounters
  readonly #speaker: Speaker
  readonly #source: HeartbeatSource
  readonly #timers = new Map<ProducerLink, Timer>()
  /** Heartbeats without an answer, one after the other. */
  readonly #failureCounts = new WeakMap<ProducerLink, number>()

  constructor(options: {
    readonly speaker: Speaker
    readonly counters: WriteCounters
    readonly source: HeartbeatSource
  }) {
    this.#components = options.speaker.components
    this.#counters = options.counters
    this.#speaker = options.speaker
    this.#source = options.source
  }

  start(link: ProducerLink): void {
    const intervalMs = heartbeatIntervalMs(link.leaseDurationMs)
    const timer = this.#components.clock.after(intervalMs, () => void this.#beat(link))
    this.#timers.set(link, timer)
  }

  /** Asks for these at once, besides the rhythm. */
  async ask(link: ProducerLink, transferIds: readonly string[]): Promise<void> {
    for (const portion of heartbeatPortions(transferIds)) {
      await this.#renew(link, portion, new Map())
    }
  }

  stop(link: ProducerLink): void {
    this.#timers.get(link)?.stop()
    this.#timers.delete(link)
  }

  close(): void {
    for (const timer of this.#timers.values()) timer.stop()
    this.#timers.clear()
  }

  async #beat(link: ProducerLink): Promise<void> {
    const parts = new Map(
      this.#source.registeredOver(link).map((part) => [part.load.order.transferId, part]),
    )
    const ids = [...new Set([...this.#source.keptOver(link), ...parts.keys()])]
    for (const portion of heartbeatPortions(ids)) await this.#renew(link, portion, parts)
    // A producer that is slow to answer isn't asked again meanwhile.
    if (this.#timers.has(link)) this.start(link)
  }

  async #renew(
    link: ProducerLink,
    transferIds: readonly string[],
    parts: ReadonlyMap<string, PartRecord>,
  ): Promise<void> {
    const { association, rank } = link
    try {
      const { protocol, rank: ownRank } = this.#speaker
      const body = encodeHeartbeat({ rank: ownRank, transferIds })
      const answer = await association.request(kindOf(protocol, 'heartbeat', rank), body)
      const { isAtWork, standings } = decodeHeartbeatReply(answer, transferIds.length)
      if (isAtWork) this.#source.onWork(link)
      this.#counters.add('heartbeatsDone')
      this.#failureCounts.delete(link)
      for (const [at, transferId] of transferIds.entries()) {
        const part = parts.get(transferId)
        if (part === undefined) {
          if (standings[at] === 'held') this.#source.onHeld(link, transferId)
        } else if (standings[at] !== 'registered') this.#source.onForgotten(part, lost(part))
      }
    } catch (cause) {
      const context = { operation: 'heartbeat', peer: association.peer.engineId }
      const count = (this.#failureCounts.get(link) ?? 0) + 1
      this.#failureCounts.set(link, count)
      this.#counters.add('heartbeatsFailed')
      if (count < writeLimits.silentHeartbeatCount) return
      this.#source.onSilence(link, asConnectorError(cause, context))
    }
  }
}

function lost({ load }: PartRecord): AnyConnectorError {
  const { requestId } = load.order
  const message = 'the producer gave the registration up'
  return new ConnectorError('ERR_KV_LEASE_EXPIRED', message, { requestId })
}
