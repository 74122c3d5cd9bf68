/**
 * The other end of a transfer, as a driver that may live in another process: the agent suite talks to
 * it only through values that survive a structured clone. `createPeerHost` implements it over any
 * TransferAgent; `servePeer` and `connectPeer` carry the same interface over a message port (child
 * process, worker). It holds no assertion and decides nothing.
 */
import type { AgentNotification, BlockTableHandle } from '../transfer-agent.ts'
import type { RegionHandle, TransferAgent, PeerHandle } from '../transfer-agent.ts'
import type { KvMemory, KvMemoryAllocator } from '../kv-memory.ts'

/** One region with memory of its own: `leadBytes`, then the blocks, then `tailBytes` that no block covers. */
export interface PeerRegion {
  readonly leadBytes: number
  readonly blockSizeBytes: number
  readonly blockStrideBytes: number
  readonly blockCount: number
  readonly tailBytes: number
}

export interface PeerTable {
  readonly id: number
  readonly exported: Uint8Array
  /** Taken after the registration, so it lists this table's regions. */
  readonly metadata: Uint8Array
}

export interface PeerNotification extends AgentNotification {
  /** The watched memory as it was when the notification arrived; null when nothing is watched. */
  readonly snapshot: Uint8Array | null
}

export interface AgentPeer {
  /** Name of its agent. */
  readonly name: string
  /** Allocates, registers (the whole memory of each region) and declares. */
  declareTable(regions: readonly PeerRegion[]): Promise<PeerTable>
  metadata(): Promise<Uint8Array>
  /** The whole memory of one region, lead and tail included. */
  readMemory(tableId: number, regionIndex: number): Promise<Uint8Array>
  writeMemory(tableId: number, regionIndex: number, bytes: Uint8Array): Promise<void>
  expectNotifications(isExpected: boolean): Promise<void>
  /** Which memory is copied at each notification from now on. */
  watchMemory(watched: { tableId: number; regionIndex: number } | null): Promise<void>
  /** All notifications not taken yet, once there are at least `count` (0: at once). */
  takeNotifications(count: number): Promise<PeerNotification[]>
  /** Makes the agent under test known here, so that `notify` reaches it. */
  connect(options: { metadata: Uint8Array; expectedName: string }): Promise<void>
  /** To the agent that was connected last, one by one in this order. */
  notify(messages: readonly Uint8Array[]): Promise<void>
  /** Releases every table with its memory and peer, forgets notifications, expects none. */
  reset(): Promise<void>
  close(): Promise<void>
}

/** Bytes of memory that such a region needs. */
export const peerRegionSizeBytes = (region: PeerRegion): number =>
  region.leadBytes +
  (region.blockCount - 1) * region.blockStrideBytes +
  region.blockSizeBytes +
  region.tailBytes

interface HostedTable {
  readonly table: BlockTableHandle
  readonly regions: readonly { readonly handle: RegionHandle; readonly memory: KvMemory }[]
}

const hostBytes = (memory: KvMemory): Uint8Array => {
  if (memory.bytes === null) throw new TypeError('the suite needs host memory')
  return memory.bytes
}

/** An AgentPeer in this process. It takes the agent over: listener, peers and `close`. */
export function createPeerHost(options: {
  readonly agent: TransferAgent
  readonly allocator: KvMemoryAllocator
}): AgentPeer {
  const { agent, allocator } = options
  const tables = new Map<number, HostedTable>()
  let nextTableId = 1
  let watched: { tableId: number; regionIndex: number } | null = null
  let notifications: PeerNotification[] = []
  let waiting: { readonly count: number; readonly wake: () => void } | null = null
  let connected: PeerHandle | null = null

  const memoryOf = (tableId: number, regionIndex: number): Uint8Array => {
    const region = tables.get(tableId)?.regions[regionIndex]
    if (region === undefined) throw new RangeError(`no region ${regionIndex} in table ${tableId}`)
    return hostBytes(region.memory)
  }

  agent.setListener({
    onCompletions() {},
    onNotifications(batch) {
      const snapshot = watched ? memoryOf(watched.tableId, watched.regionIndex).slice() : null
      for (const { from, message } of batch) {
        notifications.push({ from, message: message.slice(), snapshot })
      }
      if (waiting !== null && notifications.length >= waiting.count) waiting.wake()
    },
    onBroken(error) {
      throw error
    },
  })

  return {
    name: agent.name,
    async declareTable(regions) {
      const hosted: { memory: KvMemory; handle: RegionHandle }[] = []
      for (const region of regions) {
        const sizeBytes = peerRegionSizeBytes(region)
        const memory = allocator.allocate({ sizeBytes })
        const handle = await agent.registerRegion({
          memory,
          offsetBytes: 0,
          lengthBytes: sizeBytes,
        })
        hosted.push({ memory, handle })
      }
      const table = agent.declareBlockTable(
        regions.map((region, index) => ({
          region: hosted[index]!.handle,
          offsetBytes: region.leadBytes,
          blockSizeBytes: region.blockSizeBytes,
          blockStrideBytes: region.blockStrideBytes,
          blockCount: region.blockCount,
        })),
      )
      const id = nextTableId
      nextTableId += 1
      tables.set(id, { table, regions: hosted })
      const metadata = await agent.localMetadata()
      return { id, exported: agent.exportBlockTable(table), metadata }
    },
    metadata: () => agent.localMetadata(),
    readMemory: async (tableId, regionIndex) => memoryOf(tableId, regionIndex).slice(),
    async writeMemory(tableId, regionIndex, bytes) {
      memoryOf(tableId, regionIndex).set(bytes)
    },
    async expectNotifications(isExpected) {
      agent.expectNotifications(isExpected)
    },
    async watchMemory(next) {
      watched = next
    },
    async takeNotifications(count) {
      if (notifications.length < count) {
        await new Promise<void>((wake) => {
          waiting = { count, wake }
        })
        waiting = null
      }
      const taken = notifications
      notifications = []
      return taken
    },
    async connect(peer) {
      if (connected !== null) await agent.removePeer(connected)
      connected = await agent.addPeer(peer)
    },
    async notify(messages) {
      if (connected === null) throw new TypeError('connect comes before notify')
      for (const message of messages) await agent.notify(connected, message)
    },
    async reset() {
      agent.expectNotifications(false)
      watched = null
      notifications = []
      waiting = null
      if (connected !== null) await agent.removePeer(connected)
      connected = null
      for (const { table, regions } of tables.values()) {
        agent.releaseBlockTable(table)
        for (const { handle, memory } of regions) {
          await agent.deregisterRegion(handle)
          memory.free()
        }
      }
      tables.clear()
    },
    close: () => agent.close(),
  }
}
