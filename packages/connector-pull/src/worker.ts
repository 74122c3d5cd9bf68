/**
 * Worker half: the engine's hooks, split over its two parts (what it reads from others, what others read
 * from it), and the one listener of the agent. It starts nothing before `registerKvCaches`, and reports
 * failed loads instead of throwing. Runs on the engine's thread.
 */
import {
  type AgentListener,
  type ConnectorWorker,
  type KvCacheLayout,
  type Rank,
  type StatsSnapshot,
  type WorkerComponents,
  type WorkerOutput,
} from '@kvferry/connector-api'
import {
  ShownCounters,
  factsOf,
  closed,
  HostStaging,
  deregisterCaches,
  registerCaches,
  type KvRegistration,
  rankChannel,
  protocolLimits,
} from '@kvferry/connector-api/protocol'
import { ConsumerWorker } from './consumer-worker.ts'
import { pullIdentity } from './identity.ts'
import { pullLimits } from './limits.ts'
import { decodeMetadata, type MetadataEntry } from './metadata.ts'
import type { PullOptions } from './options.ts'
import { ProducerWorker } from './producer-worker.ts'
import { createCounters, type PullCounter } from './pull-counters.ts'
import { encodeRankMetadata } from './rank-metadata.ts'

interface Parts {
  readonly registration: KvRegistration
  readonly consumer: ConsumerWorker
  readonly producer: ProducerWorker
}

export class PullWorker implements ConnectorWorker {
  readonly #components: WorkerComponents
  readonly #options: PullOptions
  readonly #rank: Rank
  readonly #counters = createCounters()
  #registering: Promise<Uint8Array> | null = null
  #parts: Parts | null = null
  #shutdown: Promise<void> | null = null
  #shown: ShownCounters<PullCounter, 'blocksQuarantined' | 'leasesOpen'> | null = null
  /** Set by `registerKvCaches` with `bufferDevice: host`. */
  #staging: HostStaging | null = null

  constructor(components: WorkerComponents, options: PullOptions, rank: Rank) {
    this.#components = components
    this.#options = options
    this.#rank = rank
  }

  /** Called once. @throws as `registerCaches`; ConnectorError ERR_KV_CLOSED after `shutdown`. */
  registerKvCaches(caches: KvCacheLayout): Promise<Uint8Array> {
    if (this.#registering !== null) throw new TypeError('registerKvCaches is called once')
    this.#registering = this.#register(caches)
    return this.#registering
  }

  /** Nothing reads into or from a block that a preempted request owned: leases begin after its end. */
  async handlePreemptions(): Promise<void> {}

  /** @throws TypeError before `registerKvCaches`; ConnectorError ERR_KV_MESSAGE_INVALID for bytes of another version. */
  bindConnectorMetadata(meta: Uint8Array): void {
    if (this.#parts === null) throw new TypeError('registerKvCaches comes first')
    for (const entry of decodeMetadata(meta)) apply(entry, this.#parts)
    this.#parts.consumer.flush()
  }

  /** Pull saves nothing: readers take the blocks where they lie. */
  waitForSave(): void {}

  getTransferResults(): WorkerOutput {
    if (this.#parts === null) return { sent: [], received: [], failed: [] }
    const { consumer, producer } = this.#parts
    return { sent: producer.takeSent(), ...consumer.results.take() }
  }

  /** Counters are totals since the start. Null when nothing changed since the last call. */
  getStats(): StatsSnapshot | null {
    if (this.#parts === null) return null
    const { consumer, producer } = this.#parts
    const loads = consumer.results.takeSamples()
    this.#shown ??= new ShownCounters(this.#counters, {
      blocksQuarantined: () => consumer.quarantinedBlockCount,
      leasesOpen: () => producer.openLeaseCount,
    })
    return this.#shown.statsWith(loads)
  }

  shutdown(): Promise<void> {
    this.#shutdown ??= this.#close()
    return this.#shutdown
  }

  async #register(caches: KvCacheLayout): Promise<Uint8Array> {
    const isStaged = this.#components.config.bufferDevice === 'host'
    if (!isStaged) return this.#registerMemory(caches)
    this.#staging = new HostStaging(this.#components, caches)
    try {
      return await this.#registerMemory(this.#staging.caches)
    } catch (error) {
      await this.#staging.close()
      throw error
    }
  }

  async #registerMemory(registered: KvCacheLayout): Promise<Uint8Array> {
    const { agent, sideChannel } = this.#components
    const registration = await registerCaches(agent, registered)
    const handoffKey = this.#components.random.bytes(pullLimits.handoffKeySizeBytes)
    try {
      // Taken after the registration: metadata lists only regions that exist.
      const agentMetadata = await agent.localMetadata()
      if (this.#shutdown !== null) throw closed('connector')
      this.#parts = this.#createParts(registered, registration, { agentMetadata, handoffKey })
    } catch (cause) {
      // `shutdown` knows nothing of it yet.
      await deregisterCaches(agent, registration)
      throw cause
    }
    agent.setListener(listenerOf(this.#parts))
    return encodeRankMetadata({ ...sideChannel.address, handoffKey })
  }

  #createParts(
    caches: KvCacheLayout,
    registration: KvRegistration,
    credentials: { readonly agentMetadata: Uint8Array; readonly handoffKey: Uint8Array },
  ): Parts {
    const components = this.#components
    const counters = this.#counters
    const { tpRank, tpSize } = this.#rank
    const facts = factsOf(pullIdentity, caches, this.#rank)
    const { table } = registration
    const consumer = new ConsumerWorker({
      ...{ components, counters, facts },
      options: this.#options,
      cache: { caches, table, rank: tpRank, tpSize },
      staging: this.#staging,
    })
    const sideChannel = rankChannel(components.sideChannel, tpRank)
    const producer = new ProducerWorker({
      ...{ components: { ...components, sideChannel }, counters, facts, tpRank },
      leaseDurationMs: this.#options.leaseDurationMs,
      staging: this.#staging,
      ...credentials,
      blockTable: this.#components.agent.exportBlockTable(table),
    })
    return { registration, consumer, producer }
  }

  async #close(): Promise<void> {
    // A registration under way ends first; its own error belongs to its caller.
    await this.#registering?.catch(() => undefined)
    if (this.#parts === null) return
    const { consumer, producer, registration } = this.#parts
    await Promise.all([
      consumer.shutdown(protocolLimits.shutdownDrainMs),
      producer.shutdown(protocolLimits.shutdownDrainMs),
    ])
    const failures = await deregisterCaches(this.#components.agent, registration)
    for (const failure of failures) this.#components.logger.warn(`at shutdown: ${failure}`)
    if (failures.length === 0) await this.#staging?.close()
  }
}

function apply(entry: MetadataEntry, { consumer, producer }: Parts): void {
  switch (entry.kind) {
    case 'announce':
      return producer.announce(entry.requestId)
    case 'lease':
      return producer.startLease(entry.requestId, entry.remainingMs)
    case 'stage':
      return producer.stage(entry.requestId, entry.blockIds)
    case 'withdraw':
      return producer.withdraw(entry.requestId)
    case 'undelivered':
      return producer.undelivered(entry.requestId)
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
    onCompletions: (completions) => consumer.onCompletions(completions),
    onNotifications: (notifications) => producer.onNotifications(notifications),
    onBroken: (error) => consumer.onBroken(error),
  }
}
