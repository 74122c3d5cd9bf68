/**
 * The contract's TransferAgent over the native agent. Checks forms, maps failures to errors, resolves the
 * promises of commands, and hands batches to the listener. JS thread only; never waits, never polls.
 * Which transfer moves when is not decided here.
 */
import {
  ConnectorError,
  limits,
  type AgentCounters,
  type AgentListener,
  type AgentPath,
  type BlockTableHandle,
  type BlockTableRegion,
  type FenceHandle,
  type FenceSignal,
  type PeerHandle,
  type ProcessIdentity,
  type ReadyFence,
  type RegionHandle,
  type RegionOptions,
  type SlabOptions,
  type TransferAgent,
  type TransferHandle,
  type TransferPost,
} from '@kvferry/connector-api'
import type { NativeAgent, NativeBinding, NativeEvents, NativeTransferFailure } from './binding.ts'
import { readCompletions } from './completions.ts'
import { nativeEventOf } from './device-event.ts'
import { DrainWaiters } from './drain-waiters.ts'
import { nativeMemoryOf } from './native-memory.ts'
import { frameMetadata, unframeMetadata } from './metadata-frame.ts'
import { callNative, operatingError, type FailureContext } from './nixl-error.ts'
import { bytes, deadline, handle, sendPosts } from './post-list.ts'
import { PendingCommands } from './pending-commands.ts'

export interface NixlAgentOptions {
  readonly name: string
  /** Absolute path of the library. */
  readonly libraryPath: string
  readonly backends: readonly string[]
  readonly slabs: Required<SlabOptions> | null
  /** The GPU; null: host memory. */
  readonly device: { readonly library: string; readonly number: number } | null
  /** CTAs of the path `ipc`, 0 = one for each multiprocessor; null: no such path. Needs a GPU. */
  readonly ipcCtaCount: number | null
}

/** Beside descriptors, which there always are. */
function pathsOf(has: { readonly slabs: boolean; readonly ipc: boolean }): readonly AgentPath[] {
  return ['descriptors', ...(['slabs', 'ipc'] as const).filter((path) => has[path])]
}

function deviceArguments({ device, ipcCtaCount }: NixlAgentOptions) {
  if (device === null) return [] as const
  const named = [device.library, device.number] as const
  return ipcCtaCount === null ? named : ([...named, ipcCtaCount] as const)
}

export class NixlAgent implements TransferAgent {
  readonly name: string
  readonly kind = 'nixl'
  readonly paths: readonly AgentPath[]
  readonly #native: NativeAgent
  readonly #commands = new PendingCommands()
  readonly #drains = new DrainWaiters()
  #listener: AgentListener | null = null
  #openTransfers = 0
  #closing: Promise<void> | null = null

  /** @throws RangeError for the name; ConnectorError ERR_NIXL_UNAVAILABLE for the library. */
  constructor(binding: NativeBinding, options: NixlAgentOptions) {
    this.name = options.name
    this.paths = pathsOf({ slabs: options.slabs !== null, ipc: options.ipcCtaCount !== null })
    const { sizeBytes, count } = options.slabs ?? { sizeBytes: 0, count: 0 }
    this.#native = callNative(
      { operation: 'createNixlAgent' },
      () =>
        new binding.Agent(
          ...([options.name, options.libraryPath, options.backends, sizeBytes, count] as const),
          (...events) => this.#onEvents(...events),
          ...deviceArguments(options),
        ),
    )
  }

  /** Resolves once the thread runs and the library's agent and its backends exist. */
  async whenReady(): Promise<void> {
    await this.#run({ operation: 'createNixlAgent' }, () => this.#native.ready())
  }

  setListener(listener: AgentListener): void {
    this.#listener = listener
  }

  async registerRegion(options: RegionOptions): Promise<RegionHandle> {
    const memory = nativeMemoryOf(options.memory)
    const end = await this.#run({ operation: 'registerRegion' }, () =>
      this.#native.registerRegion(memory, options.offsetBytes, options.lengthBytes),
    )
    return end.handle as RegionHandle
  }

  async deregisterRegion(region: RegionHandle): Promise<void> {
    await this.#run({ operation: 'deregisterRegion' }, () =>
      this.#native.deregisterRegion(handle(region, 'region')),
    )
  }

  async localMetadata(): Promise<Uint8Array> {
    const end = await this.#run({ operation: 'localMetadata' }, () => this.#native.localMetadata())
    return frameMetadata(end.bytes)
  }

  declareBlockTable(regions: readonly BlockTableRegion[]): BlockTableHandle {
    const list = regions.flatMap((region) => [
      region.region,
      region.offsetBytes,
      region.blockSizeBytes,
      region.blockStrideBytes,
      region.blockCount,
    ])
    return this.#call('declareBlockTable', () =>
      this.#native.declareBlockTable(list),
    ) as BlockTableHandle
  }

  exportBlockTable(table: BlockTableHandle): Uint8Array {
    return this.#call('exportBlockTable', () =>
      this.#native.exportBlockTable(handle(table, 'table')),
    )
  }

  importBlockTable(peer: PeerHandle, exported: Uint8Array): BlockTableHandle {
    return this.#call('importBlockTable', () =>
      this.#native.importBlockTable(handle(peer, 'peer'), bytes(exported, 'exported')),
    ) as BlockTableHandle
  }

  describeBlockTable(table: BlockTableHandle) {
    return this.#call('describeBlockTable', () =>
      this.#native.describeBlockTable(handle(table, 'table')),
    )
  }

  releaseBlockTable(table: BlockTableHandle): void {
    this.#call('releaseBlockTable', () => this.#native.releaseBlockTable(handle(table, 'table')))
  }

  async addPeer(options: { metadata: Uint8Array; expectedName: string }): Promise<PeerHandle> {
    const { expectedName } = options
    const metadata = unframeMetadata(bytes(options.metadata, 'metadata'))
    const end = await this.#run({ operation: 'addPeer', peer: expectedName }, () =>
      this.#native.addPeer(metadata, expectedName),
    )
    return end.handle as PeerHandle
  }

  async removePeer(peer: PeerHandle): Promise<void> {
    await this.#run({ operation: 'removePeer' }, () =>
      this.#native.removePeer(handle(peer, 'peer')),
    )
  }

  pathsTo(peer: PeerHandle): readonly AgentPath[] {
    return pathsOf(this.#call('pathsTo', () => this.#native.pathsTo(handle(peer, 'peer'))))
  }

  async processEnded({ machineId, pid, startTime }: ProcessIdentity): Promise<void> {
    await this.#run({ operation: 'processEnded' }, () =>
      this.#native.processEnded(machineId, pid, Number(startTime)),
    )
  }

  createFence(): ReadyFence {
    const fence = this.#call('createFence', () => this.#native.createFence())
    return { handle: fence as FenceHandle }
  }

  signalFence(fence: ReadyFence, { inMs = 0, event }: FenceSignal = {}): void {
    if (event !== undefined) {
      const native = nativeEventOf(event)
      this.#call('signalFence', () =>
        this.#native.signalFenceAfter(handle(fence?.handle, 'fence.handle'), native),
      )
      return
    }
    if (!(inMs >= 0 && inMs <= limits.fenceDelayMsMax)) {
      throw new RangeError(`inMs must be from 0 to ${limits.fenceDelayMsMax}, got ${inMs}`)
    }
    // Rounded up: never before its moment.
    const delayUs = Math.ceil(inMs * 1_000)
    this.#call('signalFence', () =>
      this.#native.signalFence(handle(fence?.handle, 'fence.handle'), delayUs),
    )
  }

  post(
    posts: readonly TransferPost[],
    options: { readonly waitUntilPosted?: boolean } = {},
  ): TransferHandle[] {
    const isWaitUntilPosted = options.waitUntilPosted ?? false
    const handles = sendPosts(posts, (numbers, lists) =>
      this.#call('post', () => this.#native.post(numbers, isWaitUntilPosted, ...lists)),
    )
    this.#openTransfers += handles.length
    return handles as TransferHandle[]
  }

  async notify(peer: PeerHandle, message: Uint8Array): Promise<void> {
    await this.#run({ operation: 'notify' }, () =>
      this.#native.notify(handle(peer, 'peer'), bytes(message, 'message')),
    )
  }

  expectNotifications(isExpected: boolean): void {
    this.#native.expectNotifications(isExpected)
  }

  counters(): AgentCounters {
    return this.#native.counters()
  }

  drain(options: { readonly deadlineMs: number }): Promise<void> {
    const deadlineMs = deadline(options.deadlineMs)
    if (this.#openTransfers === 0) return Promise.resolve()
    return this.#drains.wait(deadlineMs)
  }

  close(options: { readonly deadlineMs?: number } = {}): Promise<void> {
    this.#closing ??= this.#close(deadline(options.deadlineMs ?? limits.transferDeadlineMs))
    return this.#closing
  }

  async #close(deadlineMs: number): Promise<void> {
    const end = await this.#run({ operation: 'close' }, () => this.#native.close(deadlineMs))
    this.#drains.reject(new ConnectorError('ERR_KV_CLOSED', 'agent is closed', { what: 'drain' }))
    if (end.leakedTransfers === 0) return
    throw new ConnectorError(
      'ERR_KV_DEADLINE',
      `${end.leakedTransfers} transfers had no final status ${deadlineMs} ms after close; their memory stays mapped`,
      { what: 'close', deadlineMs },
    )
  }

  #call<T>(operation: string, run: () => T): T {
    return callNative({ operation }, run)
  }

  #run(context: FailureContext, enqueue: () => number) {
    return this.#commands.wait(callNative(context, enqueue), context)
  }

  // Transfers come before commands: what awaits `close` finds every transfer reported. Each part is
  // delivered although a listener threw in an earlier one; the exception then ends up uncaught.
  #onEvents: NativeEvents = (transfers, failures, notifications, commands, broken) => {
    try {
      this.#onTransfers(transfers, failures)
    } finally {
      try {
        if (notifications.length > 0) this.#listener?.onNotifications(notifications)
      } finally {
        this.#commands.settle(commands)
        if (broken !== null) this.#onBroken(operatingError(broken, { operation: 'agent' }))
      }
    }
  }

  #onTransfers(transfers: Float64Array, failures: readonly NativeTransferFailure[]): void {
    if (transfers.length === 0) return
    const completions = readCompletions(transfers, failures)
    for (const { status } of completions) if (status !== 'overdue') this.#openTransfers -= 1
    if (this.#openTransfers === 0) this.#drains.resolve()
    this.#listener?.onCompletions(completions)
  }

  #onBroken(error: ReturnType<typeof operatingError>): void {
    this.#drains.reject(error)
    this.#listener?.onBroken(error)
  }
}
