/**
 * The WRITEs of one producer rank: posts what is due, follows each to its final status, and brings the news
 * to the consumer. Carries out what write-state.ts decides. Owned by whoever
 * knows what is to be written, and when.
 */
import type {
  AnyConnectorError,
  TransferCompletion,
  TransferHandle,
  TransferTimes,
  WorkerComponents,
} from '../index.ts'
import {
  asConnectorError,
  endedAtMs,
  pathChooserFor,
  postAll,
  recordOverdue,
  recordTransfer,
  reportEmulation,
  takenAtMs,
  type PathChooser,
} from '../protocol/index.ts'
import type { ConsumerPeer } from './consumer-peers.ts'
import { writeLimits } from './limits.ts'
import {
  encodeDone,
  encodeFailed,
  kindOf,
  type MessageKind,
  type WithdrawReply,
} from './messages.ts'
import { encodeWriteDone } from './notification.ts'
import type { WriteCounters } from './write-counters.ts'
import type { Waiter, WritePart } from './write-part.ts'
import { dueWrite, writePost, type DueWrite, type SourceCache } from './write-posts.ts'
import { stepWrite, type WriteEffect, type WriteEvent } from './write-state.ts'

export interface WriteTableOptions<Part extends WritePart> {
  /** Its name. */
  readonly protocol: string
  readonly components: WorkerComponents
  readonly counters: WriteCounters
  readonly cache: SourceCache
  readonly transferDeadlineMs: number
  /** A WRITE to that consumer has its final status. */
  readonly onWriteEnd: (peer: ConsumerPeer, isDone: boolean) => void
  readonly onPartEnd: (part: Part) => void
}

interface OpenWrite<Part> {
  readonly part: Part
  readonly handedOverAtMs: number
}

export class WriteTable<Part extends WritePart> {
  readonly #init: WriteTableOptions<Part>
  readonly #components: WorkerComponents
  readonly #paths: PathChooser
  readonly #writes = new Map<TransferHandle, OpenWrite<Part>>()
  readonly #overdue = new Set<TransferHandle>()
  /** Withdrawals that wait for the end of a WRITE. */
  readonly #questions = new Set<Waiter>()
  /** One for each part: two of a turn are one WRITE, or the second would tell of both before the first ended. */
  readonly #due = new Map<Part, DueWrite<Part>>()
  #quarantinedBlockCount = 0
  #isClosed = false

  constructor(init: WriteTableOptions<Part>) {
    this.#init = init
    this.#components = init.components
    const onSlabs = (): void => init.counters.add('writesBySlabs')
    this.#paths = pathChooserFor(init.components, init.cache.caches, onSlabs)
  }

  get openCount(): number {
    return this.#writes.size
  }

  /** Blocks that a WRITE past its deadline still reads. */
  get quarantinedBlockCount(): number {
    return this.#quarantinedBlockCount
  }

  /** Notes what of a part can leave; `flush` posts it. */
  advance(part: Part): void {
    const due = dueWrite(part, this.#init.cache.caches.blockTokens)
    if (due === null) return
    part.writtenEnd = due.range.end
    const start = this.#due.get(part)?.range.start ?? due.range.start
    this.#due.set(part, { ...due, range: { start, end: due.range.end } })
  }

  /** Posts everything that is due, in one call to the agent. */
  flush(): void {
    if (this.#due.size === 0) return
    const due = [...this.#due.values()]
    this.#due.clear()
    const planned = due.flatMap((one) => {
      try {
        const post = writePost(one, this.#init.cache, this.#init.transferDeadlineMs)
        return [{ one, post }]
      } catch (cause) {
        const error = asConnectorError(cause, { operation: 'plan', peer: 'agent' })
        this.dispatch(one.part, { kind: 'post-fail', error })
        return []
      }
    })
    const posts = planned.map(({ post }) => post)
    const options = { waitUntilPosted: false, paths: this.#paths }
    const results = postAll(this.#components.agent, posts, options)
    const handedOverAtMs = this.#components.clock.now()
    for (const [at, result] of results.entries()) {
      const { part, isLast, isNotified } = planned[at]!.one
      if (result.kind === 'refused') {
        this.dispatch(part, { kind: 'post-fail', error: result.error })
        continue
      }
      this.#writes.set(result.transfer, { part, handedOverAtMs })
      this.dispatch(part, { kind: 'post', isLast, isNotified })
    }
  }

  onCompletions(completions: readonly TransferCompletion[]): void {
    for (const completion of completions) {
      const emulated = this.#paths.ended(completion)
      const write = this.#writes.get(completion.transfer)
      if (write === undefined) continue
      reportEmulation(this.#init, write.part.peer, emulated)
      this.#complete(write, completion)
    }
    this.flush()
  }

  /** The agent is broken: open WRITEs are in doubt for good, and their blocks stay where they are. */
  onBroken(): void {
    for (const [transfer, { part }] of this.#writes) this.#setOverdue(transfer, part)
  }

  /** The prefill starts anew: what was written of it does not count. */
  preempt(part: Part): void {
    this.dispatch(part, { kind: 'preempt' })
    const { kind } = part.state
    if (kind === 'waiting' || kind === 'rewinding') part.writtenEnd = part.registration.firstToken
  }

  withdraw(part: Part): Promise<WithdrawReply> {
    const reply = this.#replyOf(part.waiters)
    this.dispatch(part, { kind: 'withdraw' })
    return reply
  }

  /** That it can't be said yet; not at once, for the question comes again. */
  replyLater(): Promise<WithdrawReply> {
    return this.#replyOf(new Set())
  }

  /** Leaves no timer: questions without an answer get one, for the WRITEs that they wait for are open. */
  close(): void {
    this.#isClosed = true
    for (const answer of [...this.#questions]) answer('pending')
  }

  dispatch(part: Part, event: WriteEvent): void {
    const now = this.#components.clock.now()
    const { state, effects } = stepWrite(part.state, event, now, undefined)
    part.state = state
    for (const effect of effects) this.#perform(part, effect)
  }

  #replyOf(waiters: Set<Waiter>): Promise<WithdrawReply> {
    return new Promise((resolve) => {
      const answer: Waiter = (reply) => {
        timer.stop()
        waiters.delete(answer)
        this.#questions.delete(answer)
        resolve(reply)
      }
      // The consumer asks again by itself.
      if (this.#isClosed) return resolve('pending')
      const { clock } = this.#components
      const timer = clock.after(writeLimits.withdrawAnswerMs, () => answer('pending'))
      waiters.add(answer)
      this.#questions.add(answer)
    })
  }

  #complete({ part, handedOverAtMs }: OpenWrite<Part>, completion: TransferCompletion): void {
    const { transfer } = completion
    if (completion.status === 'overdue') {
      this.#setOverdue(transfer, part)
      this.#init.counters.add('writesOverdue')
      const { identity } = part.peer
      recordOverdue(this.#components, 'write', {
        requestId: part.transfer.source?.requestId ?? '',
        ...{ engineId: identity.engineId, blockCount: part.registration.blockIds.length },
      })
      this.#measure()
      return
    }
    this.#writes.delete(transfer)
    if (this.#overdue.delete(transfer)) {
      this.#quarantinedBlockCount -= part.registration.blockIds.length
      this.#measure()
    }
    recordTransfer(this.#components.metrics, 'write', completion)
    const isDone = completion.status === 'done'
    this.#init.counters.add(isDone ? 'writesDone' : 'writesFailed')
    if (completion.status === 'done') {
      this.#note(part, completion.times, handedOverAtMs)
      this.dispatch(part, { kind: 'write-done' })
    } else this.dispatch(part, { kind: 'write-fail', error: completion.error })
    this.#init.onWriteEnd(part.peer, isDone)
  }

  #setOverdue(transfer: TransferHandle, { registration }: Part): void {
    if (this.#overdue.has(transfer)) return
    this.#overdue.add(transfer)
    this.#quarantinedBlockCount += registration.blockIds.length
  }

  #measure(): void {
    this.#components.metrics.set('kv_blocks_quarantined', this.quarantinedBlockCount)
  }

  /** Sums over a part's WRITEs; times of the last, since only that one is waited for. */
  #note(part: Part, times: TransferTimes, handedOverAtMs: number): void {
    const before = part.times
    const takenMs = takenAtMs(handedOverAtMs, times)
    // The agent's thread takes one after the other up.
    part.lastWrites = part.lastWrites.filter(({ endMs }) => endMs > takenMs)
    part.lastWrites.push({ endMs: endedAtMs(handedOverAtMs, times), bytes: times.bytes })
    part.times = {
      ...times,
      bytes: times.bytes + (before?.bytes ?? 0),
      descriptorsBeforeMerge: times.descriptorsBeforeMerge + (before?.descriptorsBeforeMerge ?? 0),
      descriptorsAfterMerge: times.descriptorsAfterMerge + (before?.descriptorsAfterMerge ?? 0),
    }
    if (before === null) part.postedAtMs = takenMs
  }

  #perform(part: Part, effect: WriteEffect): void {
    switch (effect.kind) {
      case 'answer': {
        for (const answer of [...part.waiters]) answer(effect.answer)
        return
      }
      case 'notify':
        void this.#notify(part)
        return
      case 'tell-done':
        return this.#tellDone(part)
      case 'tell-failed':
        return this.#tellFailed(part, effect.error)
      case 'resume':
        return this.advance(part)
      case 'end':
        return this.#init.onPartEnd(part)
    }
  }

  async #notify({ peer, registration }: Part): Promise<void> {
    const { agent, logger } = this.#components
    const { loadId } = registration
    try {
      await agent.notify(peer.peer, encodeWriteDone({ token: peer.token, loadId }))
    } catch (cause) {
      // The same news goes over the association.
      const context = { operation: 'notify', peer: peer.identity.engineId }
      logger.debug(asConnectorError(cause, context).message)
    }
  }

  #tellDone({ peer, registration, times, postedAtMs, lastWrites }: Part): void {
    if (times === null) return
    const lastBytes = lastWrites.reduce((sum, { bytes }) => sum + bytes, 0)
    const { loadId } = registration
    const news = { loadId, times, lastBytes, postedAtMs: Math.max(0, postedAtMs) }
    this.#send(peer, 'done', encodeDone(news))
  }

  #tellFailed({ peer, registration }: Part, error: AnyConnectorError): void {
    const { loadId } = registration
    this.#components.logger.warn(`not written: ${error.message}`, {
      ...{
        code: error.code,
        engineId: peer.identity.engineId,
        transferId: registration.transferId,
      },
    })
    this.#send(peer, 'failed', encodeFailed({ loadId, error }))
  }

  /** Lost when the association ended: then the consumer asks by itself. */
  #send({ association, rank }: ConsumerPeer, kind: MessageKind, body: Uint8Array): void {
    if (association?.isOpen !== true) return
    association.send(kindOf(this.#init.protocol, kind, rank), body)
  }
}
