/**
 * What one agent has registered, declared and imported: regions, block tables and peers, each behind
 * generation handles, with the rules of who may release what while who uses it.
 */
import { ConnectorError } from '../../errors.ts'
import { limits } from '../../limits.ts'
import type { BlockTableHandle, BlockTableRegion } from '../../transfer-agent.ts'
import type { PeerHandle, RegionHandle, RegionOptions } from '../../transfer-agent.ts'
import type { AgentProcess } from './agent-process.ts'
import { assertTableShape, placeRegion } from './block-table.ts'
import type { BlockTable } from './block-table.ts'
import type { FabricCore } from './fabric-core.ts'
import { fabricLimits } from './fabric-limits.ts'
import { HandleTable } from './handle-table.ts'
import type { Allocation } from './memory.ts'
import type { Transfer } from './transfer.ts'
import { decodeMetadata, decodeTable, encodeMetadata, encodeTable } from './wire.ts'
import type { AddressRange } from './wire.ts'

interface Region extends AddressRange {
  readonly allocation: Allocation
  tableCount: number
}

export interface Peer {
  readonly process: AgentProcess
  /** Regions that its metadata lists. */
  readonly listed: readonly AddressRange[]
}

const busy = (what: string, transfers: number): ConnectorError =>
  new ConnectorError('ERR_KV_BUSY', `${what} is in use`, { what, transfers })

export class AgentRegistry {
  readonly peers: HandleTable<Peer, PeerHandle>
  readonly tables: HandleTable<BlockTable, BlockTableHandle>
  readonly #regions: HandleTable<Region, RegionHandle>
  readonly #core: FabricCore
  readonly #process: AgentProcess

  constructor(core: FabricCore, process: AgentProcess) {
    const { random } = core
    const max = fabricLimits
    this.#core = core
    this.#process = process
    this.#regions = new HandleTable({ limit: 'regionCountMax', max: max.regionCountMax, random })
    this.tables = new HandleTable({ limit: 'tableCountMax', max: max.tableCountMax, random })
    this.peers = new HandleTable({ limit: 'peerCountMax', max: limits.peerCountMax, random })
  }

  register({ memory, offsetBytes, lengthBytes }: RegionOptions): RegionHandle {
    const allocation = this.#core.space.allocationOf(memory)
    if (allocation === undefined) {
      throw new TypeError('memory is freed, or was not made by this fabric')
    }
    const isWithin =
      Number.isSafeInteger(offsetBytes) &&
      Number.isSafeInteger(lengthBytes) &&
      offsetBytes >= 0 &&
      lengthBytes > 0 &&
      offsetBytes + lengthBytes <= allocation.sizeBytes
    if (!isWithin) throw new RangeError(`region: ${lengthBytes} bytes at ${offsetBytes}`)
    const address = allocation.address + offsetBytes
    const handle = this.#regions.add({ allocation, address, lengthBytes, tableCount: 0 })
    allocation.registrationCount += 1
    return handle
  }

  deregister(handle: RegionHandle): void {
    const region = this.#regions.get(handle, 'region')
    if (region.tableCount > 0) throw busy('region', 0)
    region.allocation.registrationCount -= 1
    this.#regions.remove(handle)
  }

  metadata(): Uint8Array {
    const { instance, name } = this.#process
    return encodeMetadata({ instance, name, regions: [...this.#regions.values()] })
  }

  declare(declared: readonly BlockTableRegion[]): BlockTableHandle {
    assertTableShape(declared)
    const owners = declared.map(({ region }) => this.#regions.get(region, 'region'))
    const regions = declared.map((region, index) => placeRegion(region, owners[index]!))
    const handle = this.tables.add({
      peer: null,
      regions,
      blockCount: regions[0]!.blockCount,
      regionHandles: declared.map(({ region }) => region),
      openTransferCount: 0,
    })
    for (const owner of owners) owner.tableCount += 1
    return handle
  }

  export(handle: BlockTableHandle): Uint8Array {
    const table = this.tables.get(handle, 'table')
    if (table.peer !== null) throw new RangeError('table: only an own table can be exported')
    return encodeTable({ instance: this.#process.instance, regions: table.regions })
  }

  import(peerHandle: PeerHandle, exported: Uint8Array): BlockTableHandle {
    const peer = this.peers.get(peerHandle, 'peer')
    if (!(exported instanceof Uint8Array)) throw new TypeError('exported must be a Uint8Array')
    const { instance, regions } = decodeTable(exported)
    if (instance !== peer.process.instance) {
      const details = { where: 'table', reason: 'of another agent' }
      throw new ConnectorError('ERR_KV_MESSAGE_INVALID', 'table of another agent', details)
    }
    const { blockCount } = regions[0]!
    return this.tables.add({
      peer: peerHandle,
      regions,
      blockCount,
      regionHandles: [],
      openTransferCount: 0,
    })
  }

  release(handle: BlockTableHandle): void {
    const table = this.tables.find(handle)
    if (table === undefined) return
    if (table.openTransferCount > 0) throw busy('table', table.openTransferCount)
    for (const region of table.regionHandles) {
      this.#regions.get(region, 'region').tableCount -= 1
    }
    this.tables.remove(handle)
  }

  /** Replaces a peer of the same name, unless a transfer with it is among those still `open`. */
  addPeer(bytes: Uint8Array, expectedName: string, open: readonly Transfer[]): PeerHandle {
    if (!(bytes instanceof Uint8Array)) throw new TypeError('metadata must be a Uint8Array')
    const { instance, name, regions } = decodeMetadata(bytes)
    if (name !== expectedName) {
      const details = { peer: name, field: 'agentName', local: expectedName, remote: name }
      const message = `metadata is of agent ${name}, expected ${expectedName}`
      throw new ConnectorError('ERR_KV_PEER_INCOMPATIBLE', message, details)
    }
    const process = this.#core.processes.get(instance)
    if (process === undefined || process === this.#process) throw loadFailed('no such agent')
    const still = open.filter(({ request }) => request.target.name === name)
    if (still.length > 0) throw busy('an earlier peer of this name', still.length)
    for (const handle of [...this.peers.handles()]) {
      if (this.peers.get(handle, 'peer').process.name === name) this.removePeer(handle)
    }
    return this.peers.add({ process, listed: regions })
  }

  removePeer(handle: PeerHandle): void {
    this.peers.remove(handle)
    for (const table of [...this.tables.handles()]) {
      if (this.tables.get(table, 'table').peer === handle) this.tables.remove(table)
    }
  }

  /** The agent ends: nothing is registered any more. */
  clear(): void {
    for (const region of this.#regions.values()) region.allocation.registrationCount -= 1
    for (const handle of [...this.#regions.handles()]) this.#regions.remove(handle)
    for (const handle of [...this.tables.handles()]) this.tables.remove(handle)
    for (const handle of [...this.peers.handles()]) this.peers.remove(handle)
  }
}

const loadFailed = (status: string): ConnectorError =>
  new ConnectorError('ERR_NIXL', status, { operation: 'load_remote_md', status })
