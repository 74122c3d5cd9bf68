/**
 * TransferAgent over the fabric's address space: the shell that checks what it is given, keeps the
 * books of open transfers and hands them to time. What it has registered is in agent-registry.ts, how
 * bytes move in transfer.ts, and what reaches the listener in agent-process.ts.
 */
import { ConnectorError } from '../../errors.ts'
import type { AnyConnectorError } from '../../errors.ts'
import { limits } from '../../limits.ts'
import type { FenceHandle, ReadyFence, TransferAgent } from '../../transfer-agent.ts'
import type { TransferHandle, TransferPost } from '../../transfer-agent.ts'
import type { AgentProcess } from './agent-process.ts'
import { assertPath, noEvents, pathsOf } from './agent-paths.ts'
import { AgentRegistry } from './agent-registry.ts'
import { piecesOf } from './block-table.ts'
import type { BlockTable } from './block-table.ts'
import type { FabricCore } from './fabric-core.ts'
import { fabricLimits } from './fabric-limits.ts'
import { HandleTable } from './handle-table.ts'
import { assertMessage, assertPostForm } from './post-form.ts'
import { Transfer } from './transfer.ts'
import type { TransferRequest } from './transfer.ts'
import { assertDisjoint, planTransfer } from './transfer-plan.ts'

interface Fence {
  readonly held: Transfer[]
}

type PreparedPost = Omit<TransferRequest, 'onEnd'> & {
  readonly fence: Fence | null
  readonly tables: readonly BlockTable[]
}

export interface MemoryAgent extends TransferAgent {
  /** Its process is gone from one moment to the next. */
  kill(): void
}

const limit = (name: string, value: number, max: number): ConnectorError =>
  new ConnectorError('ERR_KV_LIMIT', `${name}: ${value} of ${max}`, { limit: name, value, max })

const closedError = (what: string): AnyConnectorError =>
  new ConnectorError('ERR_KV_CLOSED', `${what} is closed`, { what }) as AnyConnectorError

export function createMemoryAgent(core: FabricCore, process: AgentProcess): MemoryAgent {
  const { random } = core
  const registry = new AgentRegistry(core, process)
  const transfers = new HandleTable<Transfer, TransferHandle>({
    limit: 'transfersInFlightMax',
    max: limits.transfersInFlightMax,
    random,
  })
  const fences = new HandleTable<Fence, FenceHandle>({
    limit: 'fenceCountMax',
    max: fabricLimits.fenceCountMax,
    random,
  })
  const counts = {
    transfersPosted: 0,
    transfersDone: 0,
    transfersFailed: 0,
    bytesMoved: 0,
    polls: 0,
  }
  let closing: Promise<void> | null = null

  function assertUsable(): void {
    if (closing !== null || process.isGone) throw closedError('agent')
    if (process.life === 'broken') {
      throw new ConnectorError('ERR_NIXL', 'agent is broken', {
        operation: 'any',
        status: 'broken',
      })
    }
  }

  function findFence({ handle }: ReadyFence): Fence | null {
    const fence = fences.find(handle)
    // A fence leaves the table when it is signalled; its old handle means "signalled", not "unknown".
    if (fence === undefined && !fences.isStale(handle)) {
      throw new RangeError(`fence: foreign handle ${handle}`)
    }
    return fence ?? null
  }

  function prepare(post: TransferPost, where: string): PreparedPost {
    assertPostForm(post, where)
    const peer = registry.peers.get(post.peer, `${where}.peer`)
    const local = registry.tables.get(post.local.table, `${where}.local`)
    const remote = registry.tables.get(post.remote.table, `${where}.remote`)
    if (local.peer !== null) throw new RangeError(`${where}.local: not an own table`)
    if (remote.peer !== post.peer) throw new RangeError(`${where}.remote: not a table of the peer`)
    const { path = 'descriptors' } = post
    assertPath(path, [process, peer.process], where)
    const fence = post.after === undefined ? null : findFence(post.after)
    const localPieces = piecesOf(local, post.local, `${where}.local`)
    const remotePieces = piecesOf(remote, post.remote, `${where}.remote`)
    if (post.direction === 'read') assertDisjoint(localPieces, `${where}.local`)
    else assertDisjoint(remotePieces, `${where}.remote`)
    return {
      direction: post.direction,
      plan: planTransfer(localPieces, remotePieces),
      target: peer.process,
      listed: peer.listed,
      notification: post.notification?.slice() ?? null,
      deadlineMs: post.deadlineMs ?? limits.transferDeadlineMs,
      path,
      fence,
      tables: [local, remote],
    }
  }

  function end(transfer: Transfer, isDone: boolean, tables: readonly BlockTable[]): void {
    transfers.remove(transfer.handle)
    for (const table of tables) table.openTransferCount -= 1
    process.openTransferCount -= 1
    if (isDone) counts.bytesMoved += transfer.request.plan.bytes
    counts[isDone ? 'transfersDone' : 'transfersFailed'] += 1
    if (isDone && transfer.request.path === 'ipc') process.transfersByIpc += 1
    process.pollingChanged()
  }

  function enqueue(prepared: PreparedPost, isInline: boolean): TransferHandle {
    const { tables, fence } = prepared
    const onEnd = (ended: Transfer, isDone: boolean): void => end(ended, isDone, tables)
    const transfer = new Transfer(core, process, { ...prepared, onEnd })
    transfer.handle = transfers.add(transfer)
    for (const table of tables) table.openTransferCount += 1
    process.openTransferCount += 1
    process.pollingChanged()
    // Inline too: the thread that would wait here is the one that has to signal.
    if (fence !== null) fence.held.push(transfer)
    else if (isInline) transfer.start(true)
    else process.later(core.options.agentDelayMs, () => transfer.start(false))
    return transfer.handle
  }

  function openFence(handle: FenceHandle): void {
    const fence = fences.find(handle)
    if (fence === undefined) return
    fences.remove(handle)
    for (const transfer of fence.held) {
      process.later(core.options.agentDelayMs, () => transfer.start(false))
    }
  }

  async function closeAgent(deadlineMs: number): Promise<void> {
    let stopWaiting = (): void => {}
    const deadline = new Promise<void>((resolve) => {
      const timer = core.clock.after(deadlineMs, resolve)
      stopWaiting = () => timer.stop()
    })
    await Promise.race([process.untilIdle(), deadline])
    stopWaiting()
    for (const transfer of [...transfers.values()]) transfer.abandon(closedError('agent'))
    process.close()
    // What still moves can't be stopped by anyone: its memory stays pinned for good.
    if (transfers.size === 0) registry.clear()
  }

  return {
    name: process.name,
    kind: 'memory',
    paths: pathsOf(process),
    setListener: (listener) => process.setListener(listener),
    async registerRegion(options) {
      assertUsable()
      const handle = registry.register(options)
      await process.turn()
      return handle
    },
    async deregisterRegion(region) {
      assertUsable()
      registry.deregister(region)
      await process.turn()
    },
    async localMetadata() {
      assertUsable()
      const metadata = registry.metadata()
      await process.turn()
      return metadata
    },
    declareBlockTable(regions) {
      assertUsable()
      return registry.declare(regions)
    },
    exportBlockTable(table) {
      assertUsable()
      return registry.export(table)
    },
    importBlockTable(peer, exported) {
      assertUsable()
      return registry.import(peer, exported)
    },
    describeBlockTable(handle) {
      assertUsable()
      const table = registry.tables.get(handle, 'table')
      return {
        blockCount: table.blockCount,
        blockSizesBytes: table.regions.map((region) => region.blockSizeBytes),
      }
    },
    releaseBlockTable: (table) => registry.release(table),
    async addPeer({ metadata, expectedName }) {
      assertUsable()
      await process.turn()
      assertUsable()
      return registry.addPeer(metadata, expectedName, [...transfers.values()])
    },
    async removePeer(peer) {
      registry.removePeer(peer)
      await process.turn()
    },
    pathsTo(peer) {
      const { process: target } = registry.peers.get(peer, 'peer')
      return pathsOf(process, target)
    },
    processEnded: (ended) => process.turn().then(() => core.processEnded(process, ended)),
    createFence() {
      assertUsable()
      return { handle: fences.add({ held: [] }) }
    },
    signalFence({ handle }, { inMs = 0, event } = {}) {
      if (event !== undefined) throw noEvents()
      if (!(inMs >= 0 && inMs <= limits.fenceDelayMsMax)) {
        throw new RangeError(`inMs must be from 0 to ${limits.fenceDelayMsMax}, got ${inMs}`)
      }
      if (inMs === 0) openFence(handle)
      else core.clock.after(inMs, () => openFence(handle))
    },
    post(posts, options) {
      assertUsable()
      if (!Array.isArray(posts)) throw new TypeError('posts must be an array')
      const isInline = options?.waitUntilPosted ?? false
      const prepared = posts.map((post, index) => prepare(post, `posts[${index}]`))
      const openCount = transfers.size + process.undeliveredCount + posts.length
      if (openCount > limits.transfersInFlightMax) {
        throw limit('transfersInFlightMax', openCount, limits.transfersInFlightMax)
      }
      const draining = process.drainingTransferCount
      if (posts.length > 0 && draining >= limits.drainingTransferCountMax) {
        throw limit('drainingTransferCountMax', draining, limits.drainingTransferCountMax)
      }
      return prepared.map((post) => enqueue(post, isInline))
    },
    async notify(peer, message) {
      assertUsable()
      assertMessage(message, 'message')
      const { process: target } = registry.peers.get(peer, 'peer')
      const copy = message.slice()
      await process.turn()
      core.send(process, target, copy)
    },
    expectNotifications: (isExpected) => process.expectNotifications(isExpected),
    counters: () => ({
      ...counts,
      transfersPosted: process.postCount,
      polls: process.turnCount,
      transfersOpen: transfers.size,
      transfersDraining: process.drainingTransferCount,
      notificationsReceived: process.notificationsReceived,
      notificationsDropped: process.notificationsDropped,
      slabsLent: process.slabsLent,
      slabsSuspect: 0,
      slabsMoved: process.slabsMoved,
      transfersByIpc: process.transfersByIpc,
    }),
    async drain({ deadlineMs }) {
      let timer = null as ReturnType<typeof core.clock.after> | null
      const deadline = new Promise<never>((_, reject) => {
        timer = core.clock.after(deadlineMs, () => {
          const what = 'drain'
          const message = `${transfers.size} transfers open after ${deadlineMs} ms`
          reject(new ConnectorError('ERR_KV_DEADLINE', message, { what, deadlineMs }))
        })
      })
      try {
        await Promise.race([process.untilIdle(), deadline])
      } finally {
        timer?.stop()
      }
    },
    close(options) {
      if (process.isGone) closing ??= Promise.resolve()
      closing ??= closeAgent(options?.deadlineMs ?? limits.transferDeadlineMs)
      return closing
    },
    kill() {
      for (const transfer of transfers.values()) transfer.vanish()
      process.kill()
      registry.clear()
    },
  }
}
