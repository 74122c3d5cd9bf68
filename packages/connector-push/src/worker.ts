/**
 * Worker half: the engine's hooks, split over its two parts (what others write here, what this engine
 * writes to others), and the one listener of the agent. It starts nothing before `registerKvCaches`, and
 * reports failed loads instead of throwing. Runs on the engine's thread.
 */
import {
  type AgentListener,
  type ConnectorWorker,
  type KvCacheLayout,
  type Rank,
  type ReadyFence,
  type StatsSnapshot,
  type WorkerComponents,
  type WorkerOutput,
} from '@kvferry/connector-api'
import {
  BlockFinisher,
  ShownCounters,
  WorkerLife,
  factsOf,
  protocolLimits,
  type KvRegistration,
} from '@kvferry/connector-api/protocol'
import { ConsumerWorker, type WriteCounter } from '@kvferry/connector-api/remote-writes'
import { pushIdentity } from './identity.ts'
import { decodeMetadata, type MetadataEntry } from './metadata.ts'
import type { PushOptions } from './options.ts'
import { ProducerWorker } from './producer-worker.ts'
import { createCounters } from './push-counters.ts'

interface Parts {
  readonly consumer: ConsumerWorker
  readonly producer: ProducerWorker
  readonly shown: ShownCounters<WriteCounter, 'blocksQuarantined' | 'leasesOpen'>
}

export class PushWorker implements ConnectorWorker {
  readonly #components: WorkerComponents
  readonly #options: PushOptions
  readonly #rank: Rank
  readonly #counters = createCounters()
  readonly #life: WorkerLife<Parts>
  /** Two hooks of a step read the same bytes. */
  #read: { readonly meta: Uint8Array; readonly entries: readonly MetadataEntry[] } | null = null

  constructor(components: WorkerComponents, options: PushOptions, rank: Rank) {
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
  registerKvCaches(caches: KvCacheLayout): Promise<Uint8Array> {
    // Peers learn everything from one another: the router names only a place.
    return this.#life.register(caches).then(() => new Uint8Array())
  }

  /** Waits for WRITEs that read blocks of preempted requests. */
  async handlePreemptions(meta: Uint8Array): Promise<void> {
    const parts = this.#life.registered()
    const entries = decodeMetadata(meta)
    this.#read = { meta, entries }
    const requestIds = entries.flatMap((entry) =>
      entry.kind === 'preempt' ? [entry.requestId] : [],
    )
    if (requestIds.length > 0) await parts.producer.preempt(requestIds)
  }

  /** @throws TypeError before `registerKvCaches`; ConnectorError ERR_KV_MESSAGE_INVALID for bytes of another version. */
  bindConnectorMetadata(meta: Uint8Array): void {
    const parts = this.#life.registered()
    const entries = this.#read?.meta === meta ? this.#read.entries : decodeMetadata(meta)
    this.#read = null
    for (const entry of entries) apply(entry, parts)
  }

  /** What this step's forward computes is handed to the agent here, behind its fence. */
  waitForSave(ready: ReadyFence | null): void {
    this.#life.parts?.producer.save(ready)
  }

  getTransferResults(): WorkerOutput {
    const { parts } = this.#life
    if (parts === null) return { sent: [], received: [], failed: [] }
    const { consumer, producer } = parts
    return { sent: producer.takeSent(), ...consumer.results.take() }
  }

  /** Counters are totals since the start. Null when nothing changed since the last call. */
  getStats(): StatsSnapshot | null {
    const { parts } = this.#life
    return parts === null ? null : parts.shown.statsWith(parts.consumer.results.takeSamples())
  }

  shutdown(): Promise<void> {
    return this.#life.shutdown()
  }

  #createParts(
    caches: KvCacheLayout,
    registration: KvRegistration,
    agentMetadata: Uint8Array,
  ): Parts {
    const { tpRank: rank, tpSize } = this.#rank
    const { table } = registration
    const { agent, kernels } = this.#components
    const facts = factsOf(pushIdentity, caches, this.#rank)
    const common = {
      ...{ components: this.#components, counters: this.#counters },
      ...{ options: this.#options, facts },
    }
    const consumer = new ConsumerWorker({
      ...{
        ...common,
        protocol: pushIdentity,
        rank,
        finisher: new BlockFinisher(caches, kernels),
        agentMetadata,
      },
      blockTable: agent.exportBlockTable(table),
    })
    const producer = new ProducerWorker({ ...common, cache: { caches, table, rank, tpSize } })
    const shown = new ShownCounters(this.#counters, {
      blocksQuarantined: () => consumer.quarantinedBlockCount + producer.quarantinedBlockCount,
      leasesOpen: () => producer.openLeaseCount,
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

function apply(entry: MetadataEntry, { consumer, producer }: Parts): void {
  switch (entry.kind) {
    case 'announce':
      return producer.announce(entry)
    case 'begin':
      return producer.begin(entry.requestId)
    case 'computed':
      return producer.computed(entry)
    case 'preempt':
      // Done by `handlePreemptions`, before this step's blocks were given out.
      return
    case 'finish':
      return producer.finish(entry.requestId)
    case 'abort-source':
      return producer.end(entry.requestId, true)
    case 'withdraw':
      return producer.end(entry.requestId, false)
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
    onCompletions: (completions) => producer.onCompletions(completions),
    onNotifications: (notifications) => consumer.onNotifications(notifications),
    onBroken: () => {
      consumer.onBroken()
      producer.onBroken()
    },
  }
}
