/**
 * A connector for tests of the engine alone: it writes the right bytes itself (or wrong ones, or none),
 * says what the test tells it to say, and logs the order of the hooks.
 */
import {
  asRequestId,
  ConnectorError,
  type BlockIds,
  type ConnectorFactory,
  type FailedLoad,
  type HistoryProvider,
  type KvCacheLayout,
  type KvKernels,
  type RequestId,
  type ScheduledRequest,
  type WorkerOutput,
} from '@kvferry/connector-api'
import { extendSeeds } from '../../src/core/kv-content.ts'
import { shardKernels } from '../../src/core/sharded-kernels.ts'

export interface PendingLoad {
  readonly requestId: RequestId
  readonly blocks: Uint32Array
  readonly start: number
  readonly end: number
}

export class ScriptedConnector {
  readonly hooks: string[] = []
  /** What `getNumNewMatchedTokens` offers; null = ask again. */
  offer: (promptTokenCount: number, computed: number) => number | null = (count, computed) =>
    count - computed
  /** Called in bind for each load that was committed since the last step. */
  onLoad: (load: PendingLoad) => void = () => {}
  delayFree = false
  /** Per request, the blocks that hooks have named, in order; and tokens valid after each of its steps. */
  readonly named = new Map<string, number[]>()
  readonly computed = new Map<string, number[]>()
  readonly finishedBlocks = new Map<string, number[]>()
  readonly ended: { requestId: string; reason: string | null; blockCount: number }[] = []
  readonly #pending: PendingLoad[] = []
  #output: { sent: RequestId[]; received: RequestId[]; failed: FailedLoad[] } = empty()
  #requestStep: () => void = () => {}
  caches: KvCacheLayout | null = null
  kernels: KvKernels | null = null
  history: HistoryProvider | null = null

  /** Writes the KV of `prompt` into the load's blocks, as a transfer would. */
  async writeBytes(load: PendingLoad, prompt: string): Promise<void> {
    const { caches, kernels } = this
    if (caches === null || kernels === null) throw new Error('not registered yet')
    const tokens = new TextEncoder().encode(prompt)
    const seeds = new BigUint64Array(tokens.length)
    extendSeeds(seeds, tokens, 0, tokens.length)
    const positions = Array.from({ length: load.end - load.start }, (_, i) => load.start + i)
    const blockIds = positions.map((p) => load.blocks[Math.floor(p / caches.blockTokens)] as number)
    const offsets = positions.map((p) => p % caches.blockTokens)
    await shardKernels(kernels, [caches]).fill(
      caches,
      { blockIds: Uint32Array.from(blockIds), offsets: Uint32Array.from(offsets) },
      seeds.slice(load.start, load.end),
    )
  }

  receive(requestId: string): void {
    this.#output.received.push(asRequestId(requestId))
    this.#requestStep()
  }

  fail(requestId: string, blockIds: readonly number[]): void {
    const error = new ConnectorError('ERR_KV_TRANSFER_FAILED', 'the peer died', {
      operation: 'read',
      peer: 'p0',
      status: 'gone',
    })
    const id = asRequestId(requestId)
    this.#output.failed.push({ requestId: id, blockIds: [Uint32Array.from(blockIds)], error })
    this.receive(requestId)
  }

  send(requestId: string): void {
    this.#output.sent.push(asRequestId(requestId))
    this.#requestStep()
  }

  readonly factory: ConnectorFactory = {
    name: 'test-connector',
    capabilities: {
      transferMode: 'pull',
      dispatch: 'sequential',
      isBidirectional: false,
      isProgressive: false,
      tensorParallel: 'single',
      groupCountMax: 1,
      supportsDifferentBlockSizes: false,
      supportsLora: false,
      supportsMultimodal: false,
      supportsParallelSampling: false,
    },
    parseOptions: (options) => options,
    createScheduler: (components) => {
      this.#requestStep = () => components.requestStep()
      return {
        setHandshakeMetadata: () => this.#log('setHandshakeMetadata'),
        onNewRequest: () => this.#log('onNewRequest'),
        getNumNewMatchedTokens: (request, computed) => {
          this.#log('getNumNewMatchedTokens')
          const tokens = this.offer(request.promptTokenCount, computed)
          return { tokens, isAsync: tokens !== null && tokens > 0 }
        },
        updateStateAfterAlloc: (request, blocks, external) => {
          this.#log(`updateStateAfterAlloc ${external}`)
          this.named.set(request.requestId, [...(blocks[0] ?? [])])
          if (external > 0) this.#commit(request.requestId, blocks, external, request)
        },
        buildConnectorMeta: (step) => {
          this.#log(`buildConnectorMeta ${step.scheduled.length}`)
          for (const part of step.scheduled) this.#note(part)
          return new Uint8Array()
        },
        updateConnectorOutput: () => this.#log('updateConnectorOutput'),
        requestFinished: (request, [blocks]) => {
          this.#log('requestFinished')
          const { finishReason: reason, requestId } = request
          this.finishedBlocks.set(requestId, [...(blocks ?? [])])
          this.ended.push({ requestId, reason, blockCount: blocks?.length ?? 0 })
          return { delayFree: this.delayFree, kvTransferParams: this.delayFree ? { a: 1 } : null }
        },
        hasPendingPushWork: () => false,
        hasPendingBlockFrees: () => false,
        shutdown: async () => this.#log('shutdown scheduler'),
      }
    },
    createWorker: (components) => ({
      registerKvCaches: async (caches) => {
        this.caches = caches
        this.kernels = components.kernels ?? null
        this.history = components.history ?? null
        this.#log('registerKvCaches')
        return new Uint8Array([1])
      },
      handlePreemptions: async () => this.#log('handlePreemptions'),
      bindConnectorMetadata: () => {
        this.#log('bindConnectorMetadata')
        for (const load of this.#pending.splice(0)) this.onLoad(load)
      },
      waitForSave: (ready) => this.#log(`waitForSave ${ready === null ? 'null' : 'fence'}`),
      getTransferResults: (ended): WorkerOutput => {
        this.#log(`getTransferResults ${[...ended].length}`)
        const output = this.#output
        this.#output = empty()
        return output
      },
      getStats: () => null,
      shutdown: async () => this.#log('shutdown worker'),
    }),
  }

  #commit(
    requestId: RequestId,
    [blocks]: BlockIds,
    external: number,
    request: { readonly computedTokenCount: number },
  ): void {
    const start = request.computedTokenCount
    this.#pending.push({
      requestId,
      blocks: blocks ?? new Uint32Array(),
      start,
      end: start + external,
    })
  }

  #note({ requestId, computedTokenCountAfter, newBlockIds }: ScheduledRequest): void {
    this.named.get(requestId)?.push(...(newBlockIds[0] ?? []))
    this.computed.set(requestId, [...(this.computed.get(requestId) ?? []), computedTokenCountAfter])
  }

  #log(hook: string): void {
    this.hooks.push(hook)
  }
}

const empty = () => ({ sent: [], received: [], failed: [] })
