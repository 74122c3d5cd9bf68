/**
 * Gives each post of one worker its path (`config.path`), and for `auto` keeps what transfers to each peer
 * have cost (path-costs.ts). What they cost also says whether a peer's GPU memory is emulated (path-emulation.ts): then
 * `auto` takes descriptors to it no more. Owned by whoever posts, who tells it of every post and every end.
 */
import type {
  AgentPath,
  BlockTableHandle,
  KvCacheLayout,
  PeerHandle,
  TransferAgent,
  TransferCompletion,
  TransferHandle,
  TransferPath,
  TransferPost,
  TransferSide,
  WorkerComponents,
} from '../index.ts'
import { protocolLimits } from './limits.ts'
import { beginTrial, choosePath, endTrial, unmeasuredCosts, type PathCosts } from './path-costs.ts'
import { judgeRate, unknownEmulation, type EmulationProbe } from './path-emulation.ts'

type Direction = TransferPost['direction']

/** What a choice is made from, for one peer and direction. */
interface PeerCosts {
  /** Descriptors first. */
  readonly paths: readonly AgentPath[]
  /** By size class of the pieces, log2 of their bytes. */
  readonly bySize: Map<number, PathCosts>
  probe: EmulationProbe
}

/** What a post is measured by. */
interface Size {
  readonly pieceCount: number
  readonly sizeClass: number
}

export interface RoutedPost {
  readonly post: TransferPost
  /** Null where nothing is measured. */
  readonly size: Size | null
}

/** Sums over transfers: what was under way with one of them is a difference of such sums. */
interface Traffic {
  readonly bytes: number
  /** What they are at most, until they have ended: then as the agent says. */
  readonly descriptorCount: number
}

interface OpenTransfer {
  /** Null where it is only traffic. */
  readonly trial: { readonly costs: PeerCosts; readonly size: Size } | null
  readonly path: AgentPath
  readonly direction: Direction
  readonly traffic: Traffic
  /** What had ended when it was posted. */
  readonly endedBefore: Traffic
}

const noTraffic: Traffic = { bytes: 0, descriptorCount: 0 }

/** Descriptors to that peer were found to be emulated. */
export interface EmulatedDirection {
  readonly direction: Direction
  readonly gigabytesPerSecond: number
  /** `auto` takes another path from now on; else there is none, or another is configured. */
  readonly isAvoided: boolean
}

export interface PathChooserOptions {
  readonly agent: TransferAgent
  readonly path: TransferPath
  /** The blocks lie on a GPU: there it is possible that transfers are emulated. */
  readonly isOnGpu: boolean
  /** A transfer was posted by slabs. */
  readonly onSlabs: () => void
}

export class PathChooser {
  readonly #init: PathChooserOptions
  /** The oldest are forgotten first, and measured anew if they come back. */
  readonly #peers = new Map<PeerHandle, Readonly<Record<Direction, PeerCosts>>>()
  /** No more than the agent has open transfers. */
  readonly #open = new Map<TransferHandle, OpenTransfer>()
  readonly #blockSizes = new Map<BlockTableHandle, readonly number[]>()
  #posted = noTraffic
  #ended = noTraffic

  constructor(init: PathChooserOptions) {
    this.#init = init
  }

  route(post: TransferPost): RoutedPost {
    const { path } = this.#init
    if (isFixed(path)) return { post: { ...post, path }, size: null }
    const costs = this.#costsOf(post)
    if (costs === null) return { post, size: null }
    const paths = this.#choicesOf(costs)
    if (paths.length === 1 && costs.probe.verdict !== 'unknown') {
      return { post: { ...post, path: paths[0]! }, size: null }
    }
    const size = this.#sizeOf(post)
    const { bySize } = costs
    const chosen = choosePath(bySize.get(size.sizeClass) ?? unmeasuredCosts, size.pieceCount, paths)
    return { post: { ...post, path: chosen }, size }
  }

  posted(transfer: TransferHandle, { post, size }: RoutedPost): void {
    const { direction, path = 'descriptors' } = post
    if (path === 'slabs') this.#init.onSlabs()
    const costs = size === null ? null : this.#costsOf(post)
    const trial = size === null || costs === null ? null : { size, costs }
    if (trial !== null) {
      const { pieceCount, sizeClass } = trial.size
      const before = trial.costs.bySize.get(sizeClass) ?? unmeasuredCosts
      trial.costs.bySize.set(sizeClass, beginTrial(before, pieceCount, path))
    }
    const traffic = this.#isProbing ? this.#trafficOf(post) : noTraffic
    if (trial === null && traffic.bytes === 0) return
    this.#posted = addTraffic(this.#posted, traffic)
    this.#open.set(transfer, { trial, path, direction, traffic, endedBefore: this.#ended })
  }

  /** Not null when this end is the one that shows that the peer is emulated; once for each peer and direction. */
  ended(completion: TransferCompletion): EmulatedDirection | null {
    const transfer = this.#open.get(completion.transfer)
    if (transfer === undefined || completion.status === 'overdue') return null
    this.#open.delete(completion.transfer)
    const { trial, path, traffic } = transfer
    const { prepareUs, wireUs, descriptorsAfterMerge } = completion.times
    if (this.#isProbing) {
      const descriptorCount = descriptorsAfterMerge - traffic.descriptorCount
      this.#posted = addTraffic(this.#posted, { bytes: 0, descriptorCount })
      this.#ended = addTraffic(this.#ended, addTraffic(traffic, { bytes: 0, descriptorCount }))
    }
    if (trial === null) return null
    const { costs, size } = trial
    const us = completion.status === 'done' ? prepareUs + wireUs : Infinity
    const before = costs.bySize.get(size.sizeClass) ?? unmeasuredCosts
    const after = endTrial(before, size.pieceCount, path, us, this.#choicesOf(costs))
    costs.bySize.set(size.sizeClass, after)
    const isSample = this.#isProbing && path === 'descriptors' && completion.status === 'done'
    return isSample ? this.#judge(costs, transfer, us) : null
  }

  #judge(costs: PeerCosts, transfer: OpenTransfer, us: number): EmulatedDirection | null {
    const { direction, endedBefore } = transfer
    const before = costs.probe
    costs.probe = judgeRate(before, {
      bytes: this.#posted.bytes - endedBefore.bytes,
      descriptorCount: this.#posted.descriptorCount - endedBefore.descriptorCount,
      us,
    })
    const { verdict, gigabytesPerSecond } = costs.probe
    if (verdict !== 'emulated' || before.verdict === 'emulated') return null
    // What was measured compares with a path that is no choice any more.
    costs.bySize.clear()
    const isAvoided = !this.#choicesOf(costs).includes('descriptors')
    return { direction, gigabytesPerSecond, isAvoided }
  }

  get #isProbing(): boolean {
    return this.#init.isOnGpu && !isFixed(this.#init.path)
  }

  #choicesOf({ paths, probe }: PeerCosts): readonly AgentPath[] {
    if (this.#init.path !== 'auto') return ['descriptors']
    const others = paths.filter((path) => path !== 'descriptors')
    return probe.verdict === 'emulated' && others.length > 0 ? others : paths
  }

  /** Null where there is nothing to measure: no choice and no GPU, or the peer is gone. */
  #costsOf({ peer, direction }: TransferPost): PeerCosts | null {
    const { agent, path, isOnGpu } = this.#init
    if (!isOnGpu && (path !== 'auto' || agent.paths.length < 2)) return null
    const known = this.#peers.get(peer)
    if (known !== undefined) return known[direction]
    const paths = pathsTo(agent, peer)
    if (paths.length < (isOnGpu ? 1 : 2)) return null
    const unmeasured = () => ({ paths, bySize: new Map(), probe: unknownEmulation })
    const costs = { read: unmeasured(), write: unmeasured() }
    this.#peers.set(peer, costs)
    for (const oldest of this.#peers.keys()) {
      if (this.#peers.size <= protocolLimits.measuredPeerCountMax) break
      this.#peers.delete(oldest)
    }
    return costs[direction]
  }

  #sizeOf({ local, remote }: TransferPost): Size {
    const blockSizes = this.#blockSizesOf(local.table)
    const pieceCount = pieceCountOf(local, remote, blockSizes.length)
    const bytes =
      'blockIds' in local ? local.blockIds.length * sumOf(blockSizes) : sumOf(local.lengths)
    return { pieceCount, sizeClass: Math.floor(Math.log2(bytes / pieceCount)) }
  }

  /** As it is where no neighbours are one. */
  #trafficOf({ local, remote }: TransferPost): Traffic {
    const blockSizes = this.#blockSizesOf(local.table)
    const countOf = (side: TransferSide) =>
      'blockIds' in side ? side.blockIds.length * blockSizes.length : side.lengths.length
    const bytes =
      'blockIds' in local ? local.blockIds.length * sumOf(blockSizes) : sumOf(local.lengths)
    return { bytes, descriptorCount: Math.max(countOf(local), countOf(remote)) }
  }

  /** A worker posts from one table or two. */
  #blockSizesOf(table: BlockTableHandle): readonly number[] {
    const known = this.#blockSizes.get(table)
    if (known !== undefined) return known
    const { blockSizesBytes } = this.#init.agent.describeBlockTable(table)
    this.#blockSizes.set(table, blockSizesBytes)
    return blockSizesBytes
  }
}

/**
 * How many pieces a transfer has once neighbours on both sides are one, as where blocks lie without gaps.
 * With gaps it says fewer: the same fewer each time, which is enough to compare by. Pure.
 */
export function pieceCountOf(
  local: TransferSide,
  remote: TransferSide,
  regionCount: number,
): number {
  if (!('blockIds' in local)) return local.lengths.length
  if (!('blockIds' in remote)) return remote.lengths.length
  let runCount = 1
  for (let at = 1; at < local.blockIds.length; at++) {
    const isNext =
      local.blockIds[at] === local.blockIds[at - 1]! + 1 &&
      remote.blockIds[at] === remote.blockIds[at - 1]! + 1
    if (!isNext) runCount += 1
  }
  return runCount * regionCount
}

/** Nothing of it is measured. */
const isFixed = (path: TransferPath): path is 'slabs' | 'ipc' => path === 'slabs' || path === 'ipc'

/** Of a worker that posts blocks of these caches. */
export function pathChooserFor(
  { agent, config }: WorkerComponents,
  { regions }: KvCacheLayout,
  onSlabs: () => void,
): PathChooser {
  const isOnGpu = regions.some(({ memory }) => memory.kind === 'cuda')
  return new PathChooser({ agent, path: config.path, isOnGpu, onSlabs })
}

const addTraffic = (sum: Traffic, { bytes, descriptorCount }: Traffic): Traffic => ({
  bytes: sum.bytes + bytes,
  descriptorCount: sum.descriptorCount + descriptorCount,
})

function pathsTo(agent: TransferAgent, peer: PeerHandle): readonly AgentPath[] {
  try {
    return agent.pathsTo(peer)
  } catch (error) {
    // A stale handle: the post itself is refused by name.
    if (error instanceof RangeError) return []
    throw error
  }
}

function sumOf(values: readonly number[] | Float64Array): number {
  let sum = 0
  for (const value of values) sum += value
  return sum
}
