/**
 * Worker half: the engine's hooks, split over its two parts (what others write here, what this engine
 * writes to others), and the one listener of the agent. It starts nothing before `registerKvCaches`, and
 * reports failed loads instead of throwing. Runs on the engine's thread.
 */
import type {
  AgentListener,
  ConnectorWorker,
  KvCacheLayout,
  Rank,
  StatsSnapshot,
  WorkerComponents,
  WorkerOutput,
} from '@kvferry/connector-api'
import {
  BlockFinisher,
  ShownCounters,
  WorkerLife,
  factsOf,
  protocolLimits,
  type KvRegistration,
} from '@kvferry/connector-api/protocol'
import { ConsumerWorker } from '@kvferry/connector-api/remote-writes'
import { xavierIdentity } from './identity.ts'
import { assertHistoryPolicy, openHistory } from './history/open-history.ts'
import { xavierLimits } from './limits.ts'
import { decodeMetadata, type MetadataEntry } from './metadata.ts'
import type { XavierOptions } from './options.ts'
import { ProducerWorker } from './producer-worker.ts'
import { encodeRankMetadata } from './rank-metadata.ts'
import { SnapshotStore } from './snapshot-store.ts'
import { createCounters, type XavierCounter } from './xavier-counters.ts'

interface Parts {
  readonly consumer: ConsumerWorker
  readonly producer: ProducerWorker
  readonly shown: ShownCounters<XavierCounter, 'blocksQuarantined' | 'leasesOpen'>
}

export class XavierWorker implements ConnectorWorker {
  readonly #components: WorkerComponents
  readonly #options: XavierOptions
  readonly #rank: Rank
  readonly #counters = createCounters()
  readonly #life: WorkerLife<Parts>
  /** Null: nothing is staged. */
  #snapshots: SnapshotStore | null = null

  /** @throws ConnectorError ERR_KV_CONFIG: a history without `loadFailurePolicy: recompute`. */
  constructor(components: WorkerComponents, options: XavierOptions, rank: Rank) {
    if (components.history !== undefined) assertHistoryPolicy(components.config, options)
    this.#components = components
    this.#options = options
    this.#rank = rank
    this.#life = new WorkerLife<Parts>({
      components,
      create: (...registered) => this.#createParts(...registered),
      listenerOf,
      close,
    })
  }

  /** Called once. @throws as `registerCaches`; ConnectorError ERR_KV_CLOSED after `shutdown`. */
  async registerKvCaches(caches: KvCacheLayout): Promise<Uint8Array> {
    const { sideChannel, config, random } = this.#components
    if (this.#options.staging === 'snapshot' && config.role !== 'consumer') {
      this.#snapshots = await SnapshotStore.open(this.#components, caches)
    }
    try {
      const { producer } = await this.#life.register(caches)
      const keepsHistory = producer.history !== null
      const ticketKey = random.bytes(xavierLimits.ticketKeySizeBytes)
      return encodeRankMetadata({ ...sideChannel.address, keepsHistory, ticketKey })
    } catch (cause) {
      await this.#closeSnapshots()
      throw cause
    }
  }

  /** What was handed over is a finished request's: no preemption touches it. */
  async handlePreemptions(): Promise<void> {
    this.#life.registered()
  }

  /** @throws TypeError before `registerKvCaches`; ConnectorError ERR_KV_MESSAGE_INVALID for bytes of another version. */
  bindConnectorMetadata(meta: Uint8Array): void {
    const parts = this.#life.registered()
    for (const entry of decodeMetadata(meta)) apply(entry, parts)
  }

  /** Nothing leaves while it is being computed: tickets are for requests that have ended. */
  waitForSave(): void {
    return
  }

  getTransferResults(): WorkerOutput {
    const { parts } = this.#life
    if (parts === null) return { sent: [], received: [], failed: [] }
    const { consumer, producer } = parts
    const sent = producer.tickets.takeSent()
    const loads = consumer.results.take()
    if (producer.history === null) return { sent, ...loads }
    const { received, failed, matched } = producer.history.take()
    return {
      ...{ sent, matched },
      received: [...loads.received, ...received],
      failed: [...loads.failed, ...failed],
    }
  }

  /** Counters are totals since the start. Null when nothing changed since the last call. */
  getStats(): StatsSnapshot | null {
    const { parts } = this.#life
    if (parts === null) return null
    const loads = parts.consumer.results.takeSamples()
    const { history } = parts.producer
    const hasChanged = parts.shown.hasChanged || history?.hasChanged === true
    if (!hasChanged && loads.length === 0) return null
    return { loads, counters: { ...parts.shown.take(), ...history?.takeCounters() } }
  }

  async shutdown(): Promise<void> {
    await this.#life.shutdown()
    await this.#closeSnapshots()
  }

  async #closeSnapshots(): Promise<void> {
    const snapshots = this.#snapshots
    this.#snapshots = null
    await snapshots?.close()
  }

  #createParts(caches: KvCacheLayout, { table }: KvRegistration, agentMetadata: Uint8Array): Parts {
    const { tpRank: rank, tpSize } = this.#rank
    const { agent, kernels } = this.#components
    const common = {
      ...{ components: this.#components, counters: this.#counters, options: this.#options },
      facts: factsOf(xavierIdentity, caches, this.#rank),
    }
    const consumer = new ConsumerWorker({
      ...{ ...common, protocol: xavierIdentity, rank, agentMetadata, claimsAtOnce: true },
      options: {
        handshakeTimeoutMs: this.#options.handshakeTimeoutMs,
        registrationTimeoutMs: this.#options.loadTimeoutMs,
      },
      finisher: new BlockFinisher(caches, kernels),
      blockTable: agent.exportBlockTable(table),
    })
    const snapshots = this.#snapshots
    const { caches: from, table: fromTable } = snapshots ?? { caches, table }
    const producer = new ProducerWorker({
      ...{ ...common, cache: { caches: from, table: fromTable, rank, tpSize }, snapshots },
      openHistory: (ways) => openHistory(this.#components, this.#options, caches, ways),
    })
    const shown = new ShownCounters(this.#counters, {
      blocksQuarantined: () => consumer.quarantinedBlockCount + producer.quarantinedBlockCount,
      leasesOpen: () => producer.tickets.heldCount,
    })
    return { consumer, producer, shown }
  }
}

async function close({ consumer, producer }: Parts): Promise<void> {
  await Promise.all([
    consumer.shutdown(protocolLimits.shutdownDrainMs),
    producer.shutdown(protocolLimits.shutdownDrainMs),
  ])
}

function apply(entry: MetadataEntry, { consumer, producer: { tickets, history } }: Parts): void {
  switch (entry.kind) {
    case 'announce':
      return tickets.announce(entry.requestId, entry.ticket)
    case 'register':
      return tickets.hold(entry.requestId, entry.prompt, entry.blockIds, entry.keys)
    case 'ask':
      return history?.ask(entry.requestId, entry.question, entry.keys)
    case 'restore':
      return history?.restore(entry.requestId, entry.blockIds)
    case 'forget':
      return history?.forget(entry.requestId)
    case 'withdraw':
      return tickets.withdrawSource(entry.requestId)
    case 'undelivered':
      return tickets.undelivered(entry.requestId)
    case 'offer':
      return consumer.offer(entry)
    case 'load':
      return consumer.load(entry.requestId, entry.localBlockIds, entry.tokenEnd)
    case 'release':
      return consumer.release(entry.requestId)
    case 'abort':
      return consumer.abort(entry.requestId)
  }
}

function listenerOf({ consumer, producer }: Parts): AgentListener {
  return {
    onCompletions: (completions) => producer.onCompletions(completions),
    onNotifications: (notifications) => consumer.onNotifications(notifications),
    onBroken: () => {
      consumer.onBroken()
      producer.onBroken()
    },
  }
}
