/**
 * Gives each post of one worker its path (`config.path`), and for `auto` keeps what transfers to each peer
 * have cost (path-costs.ts). Owned by whoever posts, who tells it of every post and every end.
 */
import type {
  AgentPath,
  BlockTableHandle,
  PeerHandle,
  TransferAgent,
  TransferCompletion,
  TransferHandle,
  TransferPath,
  TransferPost,
  TransferSide,
} from '../index.ts'
import { protocolLimits } from './limits.ts'
import { beginTrial, choosePath, endTrial, unmeasuredCosts, type PathCosts } from './path-costs.ts'

/** What a choice is made from, for one peer. */
interface PeerCosts {
  /** Descriptors first. */
  readonly paths: readonly AgentPath[]
  /** By size class of the pieces, log2 of their bytes. */
  readonly bySize: Map<number, PathCosts>
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

interface OpenTrial extends Size {
  readonly costs: PeerCosts
  readonly path: AgentPath
}

export interface PathChooserOptions {
  readonly agent: TransferAgent
  readonly path: TransferPath
  /** A transfer was posted by slabs. */
  readonly onSlabs: () => void
}

export class PathChooser {
  readonly #init: PathChooserOptions
  /** The oldest are forgotten first, and measured anew if they come back. */
  readonly #peers = new Map<PeerHandle, PeerCosts>()
  /** No more than the agent has open transfers. */
  readonly #open = new Map<TransferHandle, OpenTrial>()
  readonly #blockSizes = new Map<BlockTableHandle, readonly number[]>()

  constructor(init: PathChooserOptions) {
    this.#init = init
  }

  route(post: TransferPost): RoutedPost {
    const { path } = this.#init
    if (path === 'slabs' || path === 'ipc') return { post: { ...post, path }, size: null }
    const costs = path === 'auto' ? this.#costsOf(post.peer) : null
    if (costs === null) return { post, size: null }
    const size = this.#sizeOf(post)
    const { bySize, paths } = costs
    const chosen = choosePath(bySize.get(size.sizeClass) ?? unmeasuredCosts, size.pieceCount, paths)
    return { post: { ...post, path: chosen }, size }
  }

  posted(transfer: TransferHandle, { post, size }: RoutedPost): void {
    const { peer, path = 'descriptors' } = post
    if (path === 'slabs') this.#init.onSlabs()
    const costs = size === null ? null : this.#costsOf(peer)
    if (size === null || costs === null) return
    const before = costs.bySize.get(size.sizeClass) ?? unmeasuredCosts
    costs.bySize.set(size.sizeClass, beginTrial(before, size.pieceCount, path))
    this.#open.set(transfer, { ...size, costs, path })
  }

  ended(completion: TransferCompletion): void {
    const trial = this.#open.get(completion.transfer)
    if (trial === undefined || completion.status === 'overdue') return
    this.#open.delete(completion.transfer)
    const { sizeClass, pieceCount, path } = trial
    const { bySize, paths } = trial.costs
    const { prepareUs, wireUs } = completion.times
    const us = completion.status === 'done' ? prepareUs + wireUs : Infinity
    bySize.set(sizeClass, endTrial(bySize.get(sizeClass)!, pieceCount, path, us, paths))
  }

  /** Null where there is no choice: one of both agents has descriptors alone, or the peer is gone. */
  #costsOf(peer: PeerHandle): PeerCosts | null {
    const { agent } = this.#init
    if (agent.paths.length < 2) return null
    const known = this.#peers.get(peer)
    if (known !== undefined) return known
    const paths = pathsTo(agent, peer)
    if (paths.length < 2) return null
    const costs: PeerCosts = { paths, bySize: new Map() }
    this.#peers.set(peer, costs)
    for (const oldest of this.#peers.keys()) {
      if (this.#peers.size <= protocolLimits.measuredPeerCountMax) break
      this.#peers.delete(oldest)
    }
    return costs
  }

  #sizeOf({ local, remote }: TransferPost): Size {
    const blockSizes = this.#blockSizesOf(local.table)
    const pieceCount = pieceCountOf(local, remote, blockSizes.length)
    const bytes =
      'blockIds' in local ? local.blockIds.length * sumOf(blockSizes) : sumOf(local.lengths)
    return { pieceCount, sizeClass: Math.floor(Math.log2(bytes / pieceCount)) }
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
