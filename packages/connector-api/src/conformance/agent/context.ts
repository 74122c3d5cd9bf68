/**
 * What a clause works with: the agent under test, its recorder, tables on both sides, and time. Keeps
 * track of everything a clause made, so that the world can be used again; a clause never cleans up.
 */
import type { KvMemory } from '../../kv-memory.ts'
import { peerRegionSizeBytes } from '../../testing/agent-peer.ts'
import type { AgentPeer, PeerNotification, PeerRegion } from '../../testing/agent-peer.ts'
import type { BlockTableHandle, PeerHandle, ReadyFence } from '../../transfer-agent.ts'
import type { RegionHandle, TransferAgent, TransferHandle } from '../../transfer-agent.ts'
import type { TransferPost, TransferSide } from '../../transfer-agent.ts'
import type { AgentTime, AgentWorld } from '../harness.ts'
import { assert } from './expect.ts'
import { recorderOf } from './recorder.ts'
import type { FinalCompletion, Recorder } from './recorder.ts'
import type { SideModel } from './stream-model.ts'

/**
 * Ends a broken run; a right one never waits that long, on a busy machine either. Less than a transfer's
 * deadline by default, so that one whose own deadline is ignored is noticed.
 */
export const patienceMs = 25_000
/** Long enough for a wrong event to show itself, short enough to be used often in real time. */
export const quietMs = 25

export interface LocalTable {
  readonly table: BlockTableHandle
  readonly regions: readonly PeerRegion[]
  readonly regionHandles: readonly RegionHandle[]
  readonly memories: readonly KvMemory[]
}

export interface RemoteTable {
  readonly table: BlockTableHandle
  readonly regions: readonly PeerRegion[]
  /** Its id at the peer. */
  readonly id: number
  readonly owner: AgentPeer
  readonly peer: PeerHandle
}

export const bytesOf = (memory: KvMemory): Uint8Array => {
  assert.ok(memory.bytes !== null, 'the suite needs host memory')
  return memory.bytes
}

/** A side of a post from its model. */
export function sideOf(table: BlockTableHandle, side: SideModel): TransferSide {
  if ('blockIds' in side) return { table, blockIds: Uint32Array.from(side.blockIds) }
  return {
    table,
    regions: Uint32Array.from(side.segments, ({ region }) => region),
    offsets: Float64Array.from(side.segments, ({ offset }) => offset),
    lengths: Float64Array.from(side.segments, ({ length }) => length),
  }
}

export class ClauseContext {
  readonly world: AgentWorld
  readonly agent: TransferAgent
  readonly peer: AgentPeer
  readonly recorder: Recorder
  readonly time: AgentTime
  readonly #memories: KvMemory[] = []
  readonly #regions = new Set<RegionHandle>()
  readonly #tables: BlockTableHandle[] = []
  readonly #peers = new Map<AgentPeer, PeerHandle>()
  readonly #fences: ReadyFence[] = []
  readonly #extraPeers: AgentPeer[] = []

  constructor(world: AgentWorld) {
    this.world = world
    this.agent = world.agent
    this.peer = world.peer
    this.time = world.time
    this.recorder = recorderOf(world.agent)
  }

  wait<T>(promise: Promise<T>): Promise<T> {
    return this.time.wait(promise, patienceMs)
  }

  allocate(sizeBytes: number): KvMemory {
    const memory = this.world.allocator.allocate({ sizeBytes })
    this.#memories.push(memory)
    return memory
  }

  async register(memory: KvMemory, offsetBytes = 0, lengthBytes?: number): Promise<RegionHandle> {
    const length = lengthBytes ?? memory.sizeBytes - offsetBytes
    const options = { memory, offsetBytes, lengthBytes: length }
    const handle = await this.wait(this.agent.registerRegion(options))
    this.#regions.add(handle)
    return handle
  }

  async deregister(region: RegionHandle): Promise<void> {
    await this.wait(this.agent.deregisterRegion(region))
    this.#regions.delete(region)
  }

  /** For tables that a clause declares or imports itself. */
  track(table: BlockTableHandle): BlockTableHandle {
    this.#tables.push(table)
    return table
  }

  /** Allocates, registers and declares at the agent under test. */
  async local(regions: readonly PeerRegion[]): Promise<LocalTable> {
    const memories = regions.map((region) => this.allocate(peerRegionSizeBytes(region)))
    const regionHandles: RegionHandle[] = []
    for (const memory of memories) regionHandles.push(await this.register(memory))
    const declared = regions.map((region, index) => ({
      region: regionHandles[index]!,
      offsetBytes: region.leadBytes,
      blockSizeBytes: region.blockSizeBytes,
      blockStrideBytes: region.blockStrideBytes,
      blockCount: region.blockCount,
    }))
    const table = this.track(this.agent.declareBlockTable(declared))
    return { table, regions, regionHandles, memories }
  }

  /** Declares at the peer, loads its metadata anew (earlier tables of it become stale), imports. */
  async remote(regions: readonly PeerRegion[], owner = this.peer): Promise<RemoteTable> {
    const { id, exported, metadata } = await this.wait(owner.declareTable(regions))
    await this.wait(owner.expectNotifications(true))
    const peer = await this.addPeer(metadata, owner)
    const table = this.track(this.agent.importBlockTable(peer, exported))
    return { table, regions, id, owner, peer }
  }

  async addPeer(metadata: Uint8Array, owner = this.peer): Promise<PeerHandle> {
    const before = this.#peers.get(owner)
    if (before !== undefined) await this.wait(this.agent.removePeer(before))
    const options = { metadata, expectedName: owner.name }
    const peer = await this.wait(this.agent.addPeer(options))
    this.#peers.set(owner, peer)
    return peer
  }

  async createPeer(): Promise<AgentPeer> {
    const peer = await this.world.createPeer()
    this.#extraPeers.push(peer)
    return peer
  }

  createFence(): ReadyFence {
    const fence = this.agent.createFence()
    this.#fences.push(fence)
    return fence
  }

  postOne(post: TransferPost): TransferHandle {
    const handles = this.agent.post([post])
    assert.equal(handles.length, 1, 'one handle per post')
    return handles[0]!
  }

  async final(transfer: TransferHandle): Promise<FinalCompletion> {
    const hasEnded = (): boolean => this.recorder.finals(transfer).length > 0
    // Thousands of transfers that ended long ago must not cost a turn each.
    if (!hasEnded()) await this.wait(this.recorder.until(hasEnded))
    return this.recorder.finals(transfer)[0]!
  }

  async done(transfer: TransferHandle): Promise<FinalCompletion & { status: 'done' }> {
    const final = await this.final(transfer)
    if (final.status === 'failed') assert.fail(`failed: ${final.error.message}`)
    return final
  }

  readMemories({ owner, id, regions }: RemoteTable): Promise<Uint8Array[]> {
    return this.wait(Promise.all(regions.map((_, index) => owner.readMemory(id, index))))
  }

  async notificationsAtPeer(count: number, peer = this.peer): Promise<PeerNotification[]> {
    return this.wait(peer.takeNotifications(count))
  }

  quiet(): Promise<void> {
    return this.time.pass(quietMs)
  }

  /** Leaves the world as it was. Throws when that is impossible, which is a finding too. */
  async cleanUp(): Promise<void> {
    for (const fence of this.#fences) this.agent.signalFence(fence)
    await this.wait(this.agent.drain({ deadlineMs: patienceMs }))
    this.agent.expectNotifications(false)
    for (const table of this.#tables) this.agent.releaseBlockTable(table)
    for (const peer of this.#peers.values()) await this.wait(this.agent.removePeer(peer))
    for (const region of this.#regions) await this.wait(this.agent.deregisterRegion(region))
    for (const memory of this.#memories) memory.free()
    await this.wait(this.peer.reset())
    for (const peer of this.#extraPeers) await this.wait(peer.close())
    assert.deepEqual(this.recorder.broken, [], 'the agent reported that it is broken')
  }
}
