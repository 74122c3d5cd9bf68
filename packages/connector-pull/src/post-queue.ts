/**
 * Loads whose producer is ready, until they leave: checks each handoff against what the handshake taught,
 * and gives all READs of a turn to the agent in one call. Owned by load-table.ts, which acts on the events
 * that come of it.
 */
import type { TransferPost, WorkerComponents } from '@kvferry/connector-api'
import { asConnectorError, postAll } from '@kvferry/connector-api/protocol'
import type { BlockReader } from './block-reader.ts'
import { countForgery, expiryError, forgeryError } from './handoff-check.ts'
import type { LeaseKeeper } from './lease-keeper.ts'
import { outOfRange, type LoadRecord } from './load-record.ts'
import type { LoadEvent } from './load-state.ts'
import type { PullOptions } from './options.ts'
import type { PullCounters } from './pull-counters.ts'

export interface PostQueueOptions {
  readonly components: WorkerComponents
  readonly counters: PullCounters
  readonly options: PullOptions
  readonly tpRank: number
  readonly leases: LeaseKeeper
  readonly reader: BlockReader
}

/** What became of one load. */
export interface Posted {
  readonly record: LoadRecord
  readonly event: Extract<LoadEvent, { kind: 'handoff-refuse' | 'post-end' | 'post-fail' }>
}

export class PostQueue {
  readonly #init: PostQueueOptions
  #waiting: LoadRecord[] = []

  constructor(init: PostQueueOptions) {
    this.#init = init
  }

  add(record: LoadRecord): void {
    this.#waiting.push(record)
  }

  /** One event for each load that still wants to leave. Never throws for an operating error. */
  drain(): Posted[] {
    const waiting = this.#waiting.filter(({ state }) => state.kind === 'posting')
    this.#waiting = []
    const ended: Posted[] = []
    const { agent, clock } = this.#init.components
    const beganAtMs = clock.now()
    const posts = new Map<LoadRecord, TransferPost>()
    for (const record of waiting) {
      const event = this.#refusal(record)
      const post = event === null ? this.#plan(record) : event
      if ('kind' in post) ended.push({ record, event: post })
      else posts.set(record, post)
    }
    if (posts.size === 0) return ended
    const waitUntilPosted = this.#init.options.posting === 'inline'
    const calledAtMs = clock.now()
    const options = { waitUntilPosted, path: this.#init.components.config.path }
    const results = postAll(agent, [...posts.values()], options)
    const endedAtMs = clock.now()
    const blockedUs = ((endedAtMs - beganAtMs) * 1_000) / posts.size
    // A call that waits returns long after the agent has its posts.
    const handedOverAtMs = waitUntilPosted ? calledAtMs : endedAtMs
    const left = [...posts.keys()].map((record, index): Posted => {
      Object.assign(record, { handedOverAtMs, blockedUs })
      const result = results[index]!
      return result.kind === 'posted'
        ? { record, event: { kind: 'post-end', transfer: result.transfer } }
        : { record, event: { kind: 'post-fail', error: result.error } }
    })
    return [...ended, ...left]
  }

  /** Key, clock and table of the producer are known only now. */
  #refusal(record: LoadRecord): Posted['event'] | null {
    const { components, counters, leases, tpRank } = this.#init
    const { handoff, requestId } = record.order
    const link = record.link!
    const now = components.clock.now()
    const isRenewed = leases.isRenewed(requestId, now)
    const error =
      forgeryError(handoff, link, tpRank) ??
      outOfRange(handoff.blockIds, link.blockCount) ??
      leases.lossOf(requestId) ??
      (isRenewed ? null : expiryError(handoff, link, now))
    if (error === null) return null
    if (error.code === 'ERR_KV_UNAUTHORISED') countForgery(components, counters)
    return { kind: 'handoff-refuse', error }
  }

  #plan(record: LoadRecord): TransferPost | Posted['event'] {
    const { options, reader } = this.#init
    try {
      const { post, finish } = reader.plan(record, options.transferDeadlineMs)
      record.finish = finish
      return post
    } catch (cause) {
      const error = asConnectorError(cause, { operation: 'plan READ', peer: 'agent' })
      return { kind: 'post-fail', error }
    }
  }
}
