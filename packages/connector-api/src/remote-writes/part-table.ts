/**
 * The registrations of one consumer, a part of a load each: carries out what registration-state.ts decides.
 * Owned by load-table.ts, which hears of each part's end exactly once.
 */
import type { AnyConnectorError, PeerIdentity, WorkerComponents } from '../index.ts'
import type { LoadOrder, LoadRecord, PartRecord } from './load-record.ts'
import { writeLimits } from './limits.ts'
import type { DoneNews, FailedNews } from './messages.ts'
import type { LinkKey, ProducerLink, ProducerLinks } from './producer-links.ts'
import { register, withdraw, type Speaker } from './registration-client.ts'
import {
  isRegistrationOver,
  stepRegistration,
  type RegistrationEffect,
  type RegistrationEvent,
} from './registration-state.ts'

export interface PartTableOptions {
  readonly components: WorkerComponents
  readonly links: () => ProducerLinks
  readonly speaker: Speaker
  /** A part was given up before its producer was asked. */
  readonly onRelease: (order: LoadOrder, rank: number) => void
  readonly onEnd: (part: PartRecord) => void
  /** The producer's measurements of a part have come. */
  readonly onNews: (part: PartRecord) => void
  /** A part came into doubt, or out of it. */
  readonly onDoubt: (part: PartRecord, isDoubtful: boolean) => void
}

export class PartTable {
  readonly #init: PartTableOptions
  /** By the id under which the producer knows them. */
  readonly #parts = new Map<number, PartRecord>()
  #nextLoadId = 0

  constructor(init: PartTableOptions) {
    this.#init = init
  }

  add(load: LoadRecord, rank: number): PartRecord {
    const loadId = this.#nextLoadId
    this.#nextLoadId = (loadId + 1) % 2 ** 32
    const part: PartRecord = {
      ...{ load, loadId, rank, key: null, link: null, retry: null, news: null },
      state: { kind: 'connecting' },
    }
    this.#parts.set(loadId, part)
    return part
  }

  /** Nothing of it is expected any more. */
  forget({ loadId }: PartRecord): void {
    this.#parts.delete(loadId)
  }

  connect(part: PartRecord): void {
    if (part.state.kind !== 'connecting') return
    const answer = this.#init.links().linkTo(part.load.order.producer, part.rank)
    switch (answer.kind) {
      case 'ready':
        part.link = answer.link
        return this.dispatch(part, { kind: 'link-ready' })
      case 'waiting':
        part.key = answer.key
        return
      case 'unavailable':
        return this.dispatch(part, { kind: 'link-fail', error: answer.error })
    }
  }

  /** Parts that a producer rank has taken on over this link, for its heartbeat. */
  registeredOver(link: ProducerLink): PartRecord[] {
    return [...this.#parts.values()].filter(
      (part) => part.link === link && part.state.kind === 'registered',
    )
  }

  /** That life of that engine may still tell of something here. */
  isOpenAt({ engineId, incarnation }: PeerIdentity): boolean {
    for (const { link, state } of this.#parts.values()) {
      if (link === null || isRegistrationOver(state)) continue
      const { identity } = link
      if (identity.engineId === engineId && identity.incarnation === incarnation) return true
    }
    return false
  }

  onReady(link: ProducerLink): void {
    for (const part of this.#waitingFor(link.key)) {
      const { load } = part
      load.handshakeMs = this.#init.components.clock.now() - load.bindAtMs
      part.link = link
      this.dispatch(part, { kind: 'link-ready' })
    }
  }

  onFailed(key: LinkKey, error: AnyConnectorError): void {
    for (const part of this.#waitingFor(key)) this.dispatch(part, { kind: 'link-fail', error })
  }

  /** What was asked over this link may be carried out all the same. */
  onSilence(link: ProducerLink, error: AnyConnectorError): void {
    for (const part of [...this.#parts.values()]) {
      const { kind } = part.state
      if (part.link !== link || (kind !== 'registering' && kind !== 'registered')) continue
      this.dispatch(part, { kind: 'silence', error })
    }
  }

  /** True when it was of an open registration with that very life of that engine. */
  onWritten(loadId: number, from: PeerIdentity): boolean {
    const part = this.#partOf(loadId, from)
    if (part === null) return false
    this.dispatch(part, { kind: 'write-end' })
    return true
  }

  /** The same news over the association, with measurements. */
  onDone(news: DoneNews, from: PeerIdentity): void {
    const part = this.#partOf(news.loadId, from)
    if (part === null) return
    part.news = news
    this.dispatch(part, { kind: 'write-end' })
    this.#init.onNews(part)
  }

  onProducerFailed({ loadId, error }: FailedNews, from: PeerIdentity): void {
    const part = this.#partOf(loadId, from)
    if (part !== null) this.dispatch(part, { kind: 'producer-fail', error })
  }

  dispatch(part: PartRecord, event: RegistrationEvent): void {
    const before = part.state
    const now = this.#init.components.clock.now()
    const { state, effects } = stepRegistration(before, event, now, undefined)
    part.state = state
    for (const effect of effects) this.#perform(part, effect)
    const isDoubtful = state.kind === 'doubtful'
    if ((before.kind === 'doubtful') !== isDoubtful) this.#init.onDoubt(part, isDoubtful)
    if (isRegistrationOver(before) || !isRegistrationOver(state)) return
    part.retry?.stop()
    this.#init.onEnd(part)
  }

  /** Leaves no timer. */
  close(): void {
    for (const { retry } of this.#parts.values()) retry?.stop()
    this.#parts.clear()
  }

  #perform(part: PartRecord, effect: RegistrationEffect): void {
    const { speaker, components } = this.#init
    switch (effect.kind) {
      case 'register':
        return this.#ask(part, register(speaker, part))
      case 'withdraw':
        return this.#ask(part, withdraw(speaker, part))
      case 'withdraw-later': {
        const again = (): void => this.#ask(part, withdraw(speaker, part))
        // Two questions may have met silence: one attempt is enough for both.
        part.retry?.stop()
        part.retry = components.clock.after(writeLimits.doubtRetryMs, again)
        return
      }
      case 'release':
        return this.#init.onRelease(part.load.order, part.rank)
    }
  }

  #ask(part: PartRecord, question: Promise<RegistrationEvent>): void {
    void question.then((event) => {
      // Once it is forgotten nobody waits for the answer.
      if (this.#parts.get(part.loadId) === part) this.dispatch(part, event)
    })
  }

  #waitingFor(key: LinkKey): PartRecord[] {
    return [...this.#parts.values()].filter(
      (part) => part.key === key && part.state.kind === 'connecting',
    )
  }

  /** Another life of that engine, or another engine, says nothing about a registration. */
  #partOf(loadId: number, { engineId, incarnation }: PeerIdentity): PartRecord | null {
    const part = this.#parts.get(loadId)
    const identity = part?.link?.identity
    if (identity?.engineId !== engineId || identity.incarnation !== incarnation) return null
    return part!
  }
}
