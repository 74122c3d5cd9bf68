/**
 * A history as the explorer sees it: the shipped index, leases, staging and writer machine, and copies that end when
 * the explorer says. What tiered-history.ts and history-writer.ts do between them is written down here once more,
 * without promises; every memory says what it holds.
 */
import { assert, type HistoryLease, type Instant } from '@kvferry/connector-api'
import { createSeededRandom } from '@kvferry/connector-api/testing'
import { HistoryStore } from '../../src/store/history-store.ts'
import { noEntry } from '../../src/store/key-table.ts'
import { keyWords, type KeyWords } from '../../src/store/key-words.ts'
import { LeaseTable } from '../../src/store/lease-table.ts'
import { noSlot } from '../../src/store/slot-pool.ts'
import { admit } from '../../src/writing/admission.ts'
import { historyPolicies } from '../../src/writing/history-policy.ts'
import { Staging, type Stage } from '../../src/writing/staging.ts'
import type { WriterState } from '../../src/writing/writer-state.ts'
import { keysOf } from '../fixtures/world.ts'

/** What the code around the machines sees to, each of it to be broken. */
export interface Rules {
  /** A block is found before its bytes are there. */
  readonly publishesEarly: boolean
  /** An engine's blocks go back while a chunk copies them. */
  readonly freesUnderCopy: boolean
  /** A restore pins nothing. */
  readonly readsUnpinned: boolean
  /** A lease ends with its time, read or not. */
  readonly expiresUnderRead: boolean
  /** Slots of a chunk that was given up are free at once. */
  readonly abandonsAtOnce: boolean
}

export const shippedRules: Rules = {
  ...{ publishesEarly: false, freesUnderCopy: false, readsUnpinned: false },
  ...{ expiresUnderRead: false, abandonsAtOnce: false },
}

export interface Scope {
  readonly device: number
  readonly host: number
  /** Blocks of one chunk. */
  readonly chunk: number
  /** Finished requests, by the names of their blocks; offered in this order, one at a time or not. */
  readonly offers: readonly string[]
  /** Prompts that come back. */
  readonly readers: readonly string[]
  /** Copies that fail or don't end in time. */
  readonly faults: number
  /** How often the time of everything that has one is over. */
  readonly times: number
}

interface Copy {
  readonly from: string
  readonly to: string
  readonly content: string
}

interface Job {
  readonly offer: number
  readonly candidates: readonly number[]
  next: number
  isOver: boolean
}

export interface Reader {
  kind: 'new' | 'reserved' | 'reading' | 'done'
  lease: HistoryLease | null
  length: number
  copies: Copy[]
}

/** All deadlines and leases end at the next whole number. */
const leaseBounds = { leaseDurationMs: 1, leaseCountMax: 8 }

export class ExploredWorld {
  readonly scope: Scope
  readonly rules: Rules
  readonly store: HistoryStore
  readonly leases: LeaseTable
  readonly staging: Staging
  /** By place, `device 0`, `engine 1 0`, `reader 0 1`: whose bytes it has; nobody's while they are being written. */
  readonly memory = new Map<string, string>()
  readonly readers: Reader[]
  writer: WriterState = { kind: 'idle' }
  isCheckDue = false
  job: Job | null = null
  chunk: { readonly job: Job; stage: Stage; copies: Copy[] } | null = null
  /** Of chunks that nobody waits for any more: there are none, unless a rule is broken. */
  strays: Copy[] = []
  offered = 0
  freed: boolean[]
  now = 0 as Instant
  faultsLeft: number
  timesLeft: number
  problem: string | null = null

  constructor(scope: Scope, rules: Rules) {
    this.scope = scope
    this.rules = rules
    this.store = new HistoryStore(scope.device, scope.host, createSeededRandom(1))
    this.leases = new LeaseTable(this.store, leaseBounds)
    const listener = { onDemoted() {}, onEvicted() {} }
    this.staging = new Staging(this.store, historyPolicies['copy-on-eviction'], listener)
    this.readers = scope.readers.map(() => ({ kind: 'new', lease: null, length: 0, copies: [] }))
    this.freed = scope.offers.map(() => false)
    this.faultsLeft = scope.faults
    this.timesLeft = scope.times
    scope.offers.forEach((names, offer) => {
      for (const [at, name] of [...names].entries()) this.memory.set(`engine ${offer} ${at}`, name)
    })
  }

  fail(problem: string): void {
    this.problem ??= problem
  }

  /** Which blocks of a finished request are to be copied, in order. */
  admitted(names: string): readonly number[] {
    const { capacity, entryCount } = this.store
    const words = wordsOf(names)
    const request = {
      blockCount: names.length,
      isStored: (index: number) => this.store.find(words, index) !== noEntry,
      isSeen: () => false,
    }
    const room = { capacity, entryCount, candidateCountMax: capacity }
    return admit(historyPolicies['copy-on-eviction'], request, room).candidates
  }

  /** Entries that hold the beginning of a prompt, in a row. */
  run(names: string): Uint32Array {
    const words = wordsOf(names)
    const ids = Array.from(names, (_, index) => this.store.find(words, index))
    const end = ids.indexOf(noEntry)
    return Uint32Array.from(end === -1 ? ids : ids.slice(0, end))
  }

  placeOf(id: number): string {
    const slot = this.store.deviceSlotOf(id)
    return slot === noSlot ? `host ${this.store.hostSlotOf(id)}` : `device ${slot}`
  }

  begin(from: string, to: string): Copy {
    for (const copy of this.openCopies()) {
      if (copy.to === to) this.fail(`S1: two copies write ${to}`)
      if (copy.to === from) this.fail(`S1: ${from} is read while it is being written`)
      if (copy.from === to) this.fail(`S1: ${to} is written while it is being read`)
    }
    const content = this.memory.get(from) ?? 'nobody’s'
    this.memory.set(to, 'nobody’s')
    return { from, to, content }
  }

  end({ from, to, content }: Copy): void {
    this.memory.set(to, this.memory.get(from) === content ? content : 'a mixture')
  }

  *openCopies(): Iterable<Copy> {
    if (this.chunk !== null) yield* this.chunk.copies
    for (const { copies } of this.readers) yield* copies
    yield* this.strays
  }

  /** The engine has its blocks again. */
  free(offer: number): void {
    assert(!this.freed[offer], 'S1: freed twice')
    this.freed[offer] = true
    const isRead = this.chunk !== null && !this.chunk.job.isOver
    for (const copy of isRead ? this.chunk!.copies : []) {
      if (copy.from.startsWith(`engine ${offer} `)) this.fail('S1: freed while a chunk copies it')
    }
    for (const at of this.scope.offers[offer]!.split('').keys()) {
      this.memory.set(`engine ${offer} ${at}`, 'others’')
    }
  }

  /** What is found has the bytes that it is found for. */
  judge(): string | null {
    for (const name of new Set(this.scope.offers.join(''))) {
      const id = this.store.find(wordsOf(name), 0)
      if (id === noEntry) continue
      const { memory, store } = this
      const slots = [`device ${store.deviceSlotOf(id)}`, `host ${store.hostSlotOf(id)}`]
      const wrong = slots.find((slot) => memory.has(slot) && memory.get(slot) !== name)
      if (wrong !== undefined) this.fail(`S2: block ${name} in ${wrong} is ${memory.get(wrong)}`)
    }
    return this.problem
  }

  judgeEnd(): string | null {
    const { store, writer } = this
    if (writer.kind !== 'idle') return `V1: the writer is ${writer.kind} for ever`
    if (this.freed.includes(false)) return 'V2: an engine’s blocks are held for ever'
    if (this.leases.count > 0) return 'V2: a lease is open for ever'
    for (let id = store.order.oldest(); id !== noEntry; id = store.order.newer(id)) {
      if (store.pinCount(id) > 0) return 'V2: a block is pinned for ever'
    }
    const free = store.deviceSlots.freeCount + store.hostSlots.freeCount
    const lost = store.capacity - free - store.entryCount
    return lost === 0 ? null : `V2: ${lost} slots are lost`
  }

  key(): string {
    const { store } = this
    const entries: unknown[] = []
    for (let id = store.order.oldest(); id !== noEntry; id = store.order.newer(id)) {
      entries.push([store.keyOf(id)[0], this.placeOf(id), store.pinCount(id)])
    }
    const { writer, job, chunk, offered, freed, now, faultsLeft, timesLeft, isCheckDue } = this
    const open = [chunk && [chunk.copies, chunk.stage.moves.length, chunk.job], this.strays]
    const rest = { writer, job, open, offered, freed, now, faultsLeft, timesLeft, isCheckDue }
    return JSON.stringify([entries, [...this.memory].toSorted(), this.readers, rest])
  }
}

const words = new Map<string, KeyWords>()

/** A name is a letter for each block. */
export function wordsOf(names: string): KeyWords {
  const known = words.get(names) ?? keyWords(keysOf([...names]))
  words.set(names, known)
  return known
}
