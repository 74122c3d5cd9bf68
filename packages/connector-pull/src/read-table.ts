/**
 * The READs of one consumer, a share of a load each: carries out what read-state.ts decides. READs that became
 * ready in one turn leave in one post. Owned by load-table.ts, which hears of each one's end exactly once.
 */
import type { AnyConnectorError, TransferCompletion, TransferHandle } from '@kvferry/connector-api'
import { recordTransfer } from '@kvferry/connector-api/protocol'
import type { PeerLink } from './connection-state.ts'
import { askForLease } from './lease-client.ts'
import { isOverdue, type LoadRecord, type ReadRecord } from './load-record.ts'
import type { OverdueReads } from './overdue-reads.ts'
import type { PeerConnections } from './peer-connections.ts'
import type { PeerKey } from './peer-listener.ts'
import { PostQueue, type PostQueueOptions } from './post-queue.ts'
import { stepRead, type ReadEffect, type ReadEvent } from './read-state.ts'
import type { ReleaseQueue } from './release-queue.ts'

const none: readonly ReadRecord[] = []

export interface ReadTableOptions extends PostQueueOptions {
  readonly peers: PeerConnections
  readonly releases: ReleaseQueue
  readonly overdue: OverdueReads
  readonly onEnd: (read: ReadRecord) => void
  /** It passed its deadline, or has ended after it. */
  readonly onOverdueChange: (read: ReadRecord, change: 1 | -1) => void
}

export class ReadTable {
  readonly #init: ReadTableOptions
  readonly #open = new Set<ReadRecord>()
  /** Index into `#open` by the transfer that a READ waits for. */
  readonly #transfers = new Map<TransferHandle, ReadRecord>()
  readonly #posts: PostQueue

  constructor(init: ReadTableOptions) {
    this.#init = init
    this.#posts = new PostQueue(init)
  }

  /** READs without final status. */
  get openCount(): number {
    return this.#transfers.size
  }

  hasOpen(key: PeerKey): boolean {
    return [...this.#transfers.values()].some(({ peer }) => peer === key)
  }

  create(load: LoadRecord, rank: number): ReadRecord {
    const state = { kind: 'connecting' } as const
    const read: ReadRecord = {
      ...{ load, rank, peer: null, link: null, state },
      ...{ handedOverAtMs: null, blockedUs: 0 },
    }
    this.#open.add(read)
    return read
  }

  /** It leaves with `flush`, or when its connection is ready. One that was given up meanwhile does not. */
  connect(read: ReadRecord): void {
    if (read.state.kind !== 'connecting') return
    const answer = this.#init.peers.linkTo(read.load.order.handoff.remote, read.rank)
    if (answer.kind === 'unavailable') {
      this.#dispatch(read, { kind: 'peer-fail', error: answer.error })
      return
    }
    read.peer = answer.key
    if (answer.kind === 'ready') this.#ready(read, answer.link)
  }

  /** Its load was given up. Nothing stops a READ that runs: it ends as it must. */
  abort(read: ReadRecord): void {
    const { kind } = read.state
    if (kind === 'draining' || kind === 'draining-overdue' || kind === 'ended') return
    this.#init.leases.endShare(read.load.order.requestId, read.rank)
    this.#dispatch(read, { kind: 'abort' })
  }

  /** Posts every READ that became ready since the last call, in one call to the agent. */
  flush(): void {
    const { clock } = this.#init.components
    const beganAtMs = clock.now()
    const asked = this.#ask()
    if (asked.length === 0) return
    const posted = this.#posts.post(asked)
    const blockedUs = ((clock.now() - beganAtMs) * 1_000) / asked.length
    for (const read of asked) read.blockedUs += blockedUs
    for (const { read, event } of posted) {
      if (event.kind !== 'post-end') continue
      this.#transfers.set(event.transfer, read)
      this.#dispatch(read, event)
    }
    // Only now: a share that fails ends its load's others, and those that run must be known to run.
    for (const { read, event } of posted) {
      if (event.kind === 'post-fail' && read.state.kind === 'asked') this.#dispatch(read, event)
    }
  }

  onReady(key: PeerKey, link: PeerLink): void {
    this.#forWaiting(key, (read) => this.#ready(read, link))
  }

  onFailed(key: PeerKey, error: AnyConnectorError): void {
    this.#forWaiting(key, (read) => this.#dispatch(read, { kind: 'peer-fail', error }))
  }

  onForgotten(key: PeerKey): void {
    this.#forWaiting(key, (read) => this.connect(read))
  }

  onCompletions(completions: readonly TransferCompletion[]): void {
    for (const completion of completions) {
      const read = this.#transfers.get(completion.transfer)
      this.#posts.onCompletion(completion, read ?? null)
      if (read !== undefined) this.#complete(read, completion)
    }
    this.flush()
  }

  /** What waits for a connection fails. */
  stop(error: AnyConnectorError): void {
    for (const read of [...this.#open]) {
      const { kind } = read.state
      if (kind !== 'connecting' && kind !== 'requesting') continue
      this.#dispatch(read, { kind: 'peer-fail', error })
    }
  }

  /** Of a broken agent no READ ends any more. */
  onBroken(): void {
    for (const read of [...this.#open]) this.#overdue(read)
  }

  /** Those whose handoff is good, once the questions for their leases are with the system. */
  #ask(): readonly ReadRecord[] {
    const checked = this.#posts.check()
    if (checked.length === 0) return none
    for (const { read, event } of checked) {
      // A share that was refused ends its load's others.
      if (read.state.kind === 'posting') this.#dispatch(read, event)
    }
    const asked = checked.map(({ read }) => read).filter(({ state }) => state.kind === 'asked')
    for (const association of new Set(asked.map(({ link }) => link!.association))) {
      association.flush()
    }
    return asked
  }

  #ready(read: ReadRecord, link: PeerLink): void {
    read.link = link
    if (!link.isStaged) {
      this.#dispatch(read, { kind: 'peer-ready' })
      return
    }
    // The question claims the lease: nobody asks with a handoff that somebody made up.
    this.#dispatch(read, this.#posts.refusal(read) ?? { kind: 'peer-ready-staged' })
  }

  #forWaiting(key: PeerKey, perform: (read: ReadRecord) => void): void {
    for (const read of [...this.#open]) {
      if (read.peer !== key || read.state.kind !== 'connecting') continue
      const { load } = read
      load.handshakeMs = this.#init.components.clock.now() - load.bindAtMs
      perform(read)
    }
    this.flush()
  }

  #complete(read: ReadRecord, completion: TransferCompletion): void {
    const { components, overdue, peers } = this.#init
    if (completion.status === 'overdue') {
      this.#overdue(read)
      return
    }
    this.#transfers.delete(completion.transfer)
    overdue.end(read)
    recordTransfer(components.metrics, 'read', completion)
    const { status, times } = completion
    if (status === 'failed') {
      this.#dispatch(read, { kind: 'transfer-fail', times, error: completion.error })
    } else this.#dispatch(read, { kind: 'transfer-done', times })
    if (read.peer !== null) peers.readEnd(read.peer, status === 'done')
  }

  #overdue(read: ReadRecord): void {
    // A broken agent has put every open READ here already.
    const { kind } = read.state
    if (kind !== 'reading' && kind !== 'draining') return
    // Past its deadline the producer's blocks aren't held for it any longer than their lease lasts.
    this.#init.leases.endShare(read.load.order.requestId, read.rank)
    this.#dispatch(read, { kind: 'transfer-overdue' })
    this.#init.overdue.add(read)
  }

  #dispatch(read: ReadRecord, event: ReadEvent): void {
    const now = this.#init.components.clock.now()
    const { state, effects } = stepRead(read.state, event, now, undefined)
    const wasOverdue = isOverdue(read)
    read.state = state
    if (isOverdue(read) !== wasOverdue) this.#init.onOverdueChange(read, wasOverdue ? -1 : 1)
    for (const effect of effects) this.#perform(read, effect)
  }

  #perform(read: ReadRecord, effect: ReadEffect): void {
    const { peers, releases, leases, onEnd } = this.#init
    const { order } = read.load
    switch (effect.kind) {
      case 'post':
        this.#posts.add(read)
        return
      case 'ask':
        void this.#renew(read)
        return
      case 'release':
        releases.add(peers, order, read.rank)
        return
      case 'report':
        this.#open.delete(read)
        leases.endShare(order.requestId, read.rank)
        onEnd(read)
        return
    }
  }

  async #renew(read: ReadRecord): Promise<void> {
    const { components, tpRank } = this.#init
    this.#dispatch(read, await askForLease(components.clock, tpRank, read))
    // A staging producer's grant lets a READ go.
    this.flush()
  }
}
