/**
 * What the addon exports, declared: the one place where TypeScript trusts C++. Every other module gets
 * the addon from load-binding.ts and its shape from here. Forms are checked on both sides, so that a
 * mistake ends in an exception, never in a crash.
 */

/** `Status` of native/status.h, as native/napi/result_value.cc names it. */
export type NativeStatus =
  | 'outOfRange'
  | 'invalidHandle'
  | 'limit'
  | 'closed'
  | 'busy'
  | 'messageInvalid'
  | 'peerMismatch'
  | 'deadline'
  | 'nixl'
  | 'unavailable'
  | 'unsupported'
  | 'cuda'
  | 'cudaUnavailable'
  | 'broken'

/** A native `Result` that is not ok. A throwing native function puts it into `failure` of its Error. */
export interface NativeFailure {
  readonly status: NativeStatus
  /** Function of the C API, or what of ours refused. */
  readonly operation: string
  /** Name of the C API's status, where `status` is `nixl`. */
  readonly nixl: string
  readonly limit: string
  readonly value: number
  readonly max: number
  readonly detail: string
}

/** Names one asynchronous command; its outcome arrives in a batch of events. */
export type Ticket = number

export interface NativeCommandEnd {
  readonly ticket: Ticket
  readonly failure: NativeFailure | null
  readonly handle: number
  readonly bytes: Uint8Array
  readonly leakedTransfers: number
}

export interface NativeTransferFailure {
  /** Which transfer of the batch. */
  readonly index: number
  readonly peer: string
  readonly failure: NativeFailure
}

/** Numbers per transfer in `transfers`, in this order. */
export const transferFields = [
  'handle',
  'outcome',
  'queuedUs',
  'prepareUs',
  'postUs',
  'wireUs',
  'descriptorsBeforeMerge',
  'descriptorsAfterMerge',
  'bytes',
] as const

/** Values of the field `outcome`. */
export const transferOutcomes = ['done', 'failed', 'overdue'] as const

export type NativeEvents = (
  transfers: Float64Array,
  failures: readonly NativeTransferFailure[],
  notifications: readonly { readonly from: string; readonly message: Uint8Array }[],
  commands: readonly NativeCommandEnd[],
  broken: NativeFailure | null,
) => void

export interface NativeMemory {
  free(): void
  /** The ArrayBuffer over the memory, the same one until it is freed. */
  buffer(): ArrayBuffer
  address(): bigint
  /** Of the file that holds the pages; -1 for private pages, a GPU's memory, and once freed. */
  descriptor(): number
  sizeBytes(): number
  /** Peers can reach it through the library. */
  isTarget(): boolean
  /** Host memory: page-locks it. */
  lockFor(library: string, device: number): void
  /** These four: a GPU's memory. */
  exportHandle(): Uint8Array
  exportDescriptor(): number
  read(offsetBytes: number, into: Uint8Array): void
  write(offsetBytes: number, from: Uint8Array): void
}

export interface NativeDeviceEvent {
  record(stream: bigint): void
  isDone(): boolean
  exportHandle(): Uint8Array
  free(): void
}

export interface NativeCudaInfo {
  /** 13000 is CUDA 13.0. */
  readonly driver: number
  readonly devices: readonly {
    readonly name: string
    readonly uuid: string
    readonly pciBusId: string
    readonly memoryBytes: number
    readonly computeMajor: number
    readonly computeMinor: number
  }[]
  readonly links: readonly {
    readonly from: number
    readonly to: number
    readonly hasAccess: boolean
    readonly hasNativeAtomics: boolean
    readonly performanceRank: number
  }[]
}

/** Block ids, or regions, offsets and lengths. */
export type NativeSide = Uint32Array | readonly [Uint32Array, Float64Array, Float64Array]

/**
 * Posts of one call, flat, so that C++ reads by index instead of by property name, and numbers without asking V8
 * for each. Per post in `numbers`: direction (0 read, 1 write), peer, fence (-1: none), deadlineMs, path (0
 * descriptors, 1 slabs, 2 ipc), table here, table there, and room for the handle, which is the answer. `numbers` may be
 * longer. `lists`, three a post, are arguments: notification or null, side here, side there.
 */
export interface NativePosts {
  readonly numbers: Float64Array
  readonly lists: (Uint8Array | NativeSide | null)[]
}

export interface NativeAgent {
  /** Ticket of the start of the thread and the library's agent. */
  ready(): Ticket
  registerRegion(memory: NativeMemory, offsetBytes: number, lengthBytes: number): Ticket
  deregisterRegion(region: number): Ticket
  localMetadata(): Ticket
  addPeer(metadata: Uint8Array, expectedName: string): Ticket
  removePeer(peer: number): Ticket
  notify(peer: number, message: Uint8Array): Ticket
  processEnded(machineId: string, pid: number, startTime: number): Ticket
  close(deadlineMs: number): Ticket
  /** Per region: region, offsetBytes, blockSizeBytes, blockStrideBytes, blockCount. */
  declareBlockTable(regions: readonly number[]): number
  exportBlockTable(table: number): Uint8Array
  importBlockTable(peer: number, exported: Uint8Array): number
  describeBlockTable(table: number): { blockCount: number; blockSizesBytes: number[] }
  releaseBlockTable(table: number): void
  /** Beside descriptors: what both agents have. */
  pathsTo(peer: number): { slabs: boolean; ipc: boolean }
  createFence(): number
  /** `delayUs`: an integer; 0 signals it at once. */
  signalFence(fence: number, delayUs: number): void
  signalFenceAfter(fence: number, event: NativeDeviceEvent): void
  post(
    numbers: NativePosts['numbers'],
    isWaitUntilPosted: boolean,
    ...lists: NativePosts['lists']
  ): void
  expectNotifications(isExpected: boolean): void
  counters(): Record<
    | 'transfersPosted'
    | 'transfersDone'
    | 'transfersFailed'
    | 'transfersOpen'
    | 'transfersDraining'
    | 'notificationsReceived'
    | 'notificationsDropped'
    | 'bytesMoved'
    | 'polls'
    | 'slabsLent'
    | 'slabsSuspect'
    | 'slabsMoved'
    | 'transfersByIpc',
    number
  >
}

/** Values of `kind` in `NativeKernels.submit`. */
export const kernelKinds = { fill: 0, digest: 1, expect: 2 } as const

/** Per region: memory (null for `expect`), offsetBytes, blockSizeBytes, blockStrideBytes, blockCount. */
export type NativeRegions = readonly (NativeMemory | number | null)[]

type NativeTokenRun = [
  blockTokens: number,
  isHeadMajor: boolean,
  regions: NativeRegions,
  blockIds: Uint32Array,
  firstToken: number,
]

export interface NativeKernels {
  submit(
    kind: number,
    blockTokens: number,
    regions: NativeRegions,
    blockIds: Uint32Array,
    offsets: Uint32Array,
    seeds: BigUint64Array,
  ): Promise<BigUint64Array>
  /** Copies resolve with nothing in the array. */
  copyBlocks(
    isGather: boolean,
    regions: NativeRegions,
    blockIds: Uint32Array,
    slab: NativeMemory,
    offsetBytes: number,
  ): Promise<BigUint64Array>
  relayout(
    ...args: [...NativeTokenRun, ...NativeTokenRun, kvHeadCount: number, tokenCount: number]
  ): Promise<BigUint64Array>
}

export interface NativeBinding {
  /** Name of the struct layout. Loads the library for the rest of the process. */
  loadLibrary(path: string): string
  /** Path of the log in force. Works once per process; an empty `logFile` means memory. */
  applyVariables(names: readonly string[], values: readonly string[], logFile: string): string
  /** Makes the log's file hold all that was written to it. */
  flushLog(): void
  probePlugins(path: string): { name: string; isLoadable: boolean }[]
  /** Loads the driver for the rest of the process. */
  cudaInfo(library: string): NativeCudaInfo
  /** End and list bytes of each slab, one after the other; null: a slab holds no piece. */
  planSlabs(lengths: Float64Array, slabBytes: number): number[] | null
  /** Null: no message there yet. */
  tryReceiveFd(socket: number): { fd: number; message: Uint8Array } | null
  /** False: no room yet. */
  trySendFd(socket: number, fd: number, message: Uint8Array): boolean
  readonly limits: Readonly<Record<string, number>>
  readonly Agent: new (
    name: string,
    libraryPath: string,
    backends: readonly string[],
    slabBytes: number,
    slabCount: number,
    onEvents: NativeEvents,
    /** `ipcCtaCount`: the agent has the path `ipc`; 0: one for each multiprocessor. */
    ...device:
      | []
      | [cudaLibrary: string, device: number]
      | [cudaLibrary: string, device: number, ipcCtaCount: number]
  ) => NativeAgent
  readonly Kernels: new (threads: number) => NativeKernels
  /** Null to make one, bytes of a handle to import, or the driver's pointer to one of this process. */
  readonly DeviceEvent: new (
    cudaLibrary: string,
    device: number,
    source: null | Uint8Array | bigint,
  ) => NativeDeviceEvent
  /**
   * Of the host: null for private pages, true for a memfd, or a descriptor to import. Of a GPU (the last two
   * are there): null to allocate, a handle to import (which knows the size), or a descriptor.
   */
  readonly Memory: new (
    sizeBytes: number,
    isHugeOrVirtual: boolean,
    source: null | true | number | Uint8Array,
    ...device: [] | [cudaLibrary: string, device: number]
  ) => NativeMemory
}
