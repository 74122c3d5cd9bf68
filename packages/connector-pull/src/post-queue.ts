/**
 * READs whose producer is ready, until they leave: checks each handoff against what the handshake taught, and gives
 * all READs of a turn to the agent in one call. Owned by read-table.ts, which acts on the events that come of each, and
 * has the producer asked in between.
 */
import type { TransferCompletion, TransferPost, WorkerComponents } from '@kvferry/connector-api'
import {
  asConnectorError,
  pathChooserFor,
  postAll,
  reportEmulation,
  type PathChooser,
} from '@kvferry/connector-api/protocol'
import { countForgery, expiryError, forgeryError } from './handoff-check.ts'
import type { LeaseKeeper } from './lease-keeper.ts'
import { outOfRange, type ReadRecord } from './load-record.ts'
import type { PullOptions } from './options.ts'
import type { PullCounters } from './pull-counters.ts'
import type { LocalCache } from './read-plan.ts'
import { readPost } from './read-post.ts'
import type { ReadEvent } from './read-state.ts'

export interface PostQueueOptions {
  readonly components: WorkerComponents
  readonly counters: PullCounters
  readonly options: PullOptions
  /** Of this engine. */
  readonly tpRank: number
  readonly cache: LocalCache
  readonly leases: LeaseKeeper
}

type EventOf<Kind extends ReadEvent['kind']> = Extract<ReadEvent, { kind: Kind }>

export interface CheckedRead {
  readonly read: ReadRecord
  readonly event: EventOf<'handoff-accept' | 'handoff-refuse'>
}

export interface PostedRead {
  readonly read: ReadRecord
  readonly event: EventOf<'post-end' | 'post-fail'>
}

const nothing: readonly CheckedRead[] = []
const accepted = { kind: 'handoff-accept' } as const

export class PostQueue {
  readonly #init: PostQueueOptions
  readonly #paths: PathChooser
  #waiting: ReadRecord[] = []

  constructor(init: PostQueueOptions) {
    this.#init = init
    const onSlabs = (): void => init.counters.add('readsBySlabs')
    this.#paths = pathChooserFor(init.components, init.cache.caches, onSlabs)
  }

  /** Of a READ that left here; null: of another transfer. */
  onCompletion(completion: TransferCompletion, read: ReadRecord | null): void {
    const emulated = this.#paths.ended(completion)
    if (read === null) return
    const peer = { identity: read.link!.association.peer, rank: read.rank }
    reportEmulation(this.#init, peer, emulated)
  }

  add(read: ReadRecord): void {
    this.#waiting.push(read)
  }

  /** One verdict on the handoff of each READ that still wants to leave. */
  check(): readonly CheckedRead[] {
    if (this.#waiting.length === 0) return nothing
    const waiting = this.#waiting.filter(({ state }) => state.kind === 'posting')
    this.#waiting = []
    return waiting.map((read) => ({ read, event: this.refusal(read) ?? accepted }))
  }

  /** One event for each. Never throws for an operating error. */
  post(reads: readonly ReadRecord[]): readonly PostedRead[] {
    const failed: PostedRead[] = []
    const posts = new Map<ReadRecord, TransferPost>()
    for (const read of reads) {
      const post = this.#plan(read)
      if ('kind' in post) failed.push({ read, event: post })
      else posts.set(read, post)
    }
    if (posts.size === 0) return failed
    const { agent, clock } = this.#init.components
    const waitUntilPosted = this.#init.options.posting === 'inline'
    const calledAtMs = clock.now()
    const options = { waitUntilPosted, paths: this.#paths }
    const results = postAll(agent, [...posts.values()], options)
    // A call that waits returns long after the agent has its posts.
    const handedOverAtMs = waitUntilPosted ? calledAtMs : clock.now()
    const left = [...posts.keys()].map((read, index): PostedRead => {
      read.handedOverAtMs = handedOverAtMs
      const result = results[index]!
      return result.kind === 'posted'
        ? { read, event: { kind: 'post-end', transfer: result.transfer } }
        : { read, event: { kind: 'post-fail', error: result.error } }
    })
    return [...failed, ...left]
  }

  /** Why its handoff is none, or null. Key, clock and table of the producer are known only once its link is ready. */
  refusal({ load, link, rank }: ReadRecord): EventOf<'handoff-refuse'> | null {
    const { components, counters, leases } = this.#init
    const { handoff, requestId } = load.order
    const now = components.clock.now()
    const isRenewed = leases.isRenewed(requestId, rank, now)
    const error =
      forgeryError(handoff, link!) ??
      outOfRange(handoff.blockIds, link!.blockCount) ??
      leases.lossOf(requestId, rank) ??
      (isRenewed ? null : expiryError(handoff, link!, now))
    if (error === null) return null
    if (error.code === 'ERR_KV_UNAUTHORISED') countForgery(components, counters)
    return { kind: 'handoff-refuse', error }
  }

  #plan(read: ReadRecord): TransferPost | EventOf<'post-fail'> {
    const { options, cache } = this.#init
    try {
      return readPost(read, cache, options.transferDeadlineMs)
    } catch (cause) {
      const error = asConnectorError(cause, { operation: 'plan READ', peer: 'agent' })
      return { kind: 'post-fail', error }
    }
  }
}
