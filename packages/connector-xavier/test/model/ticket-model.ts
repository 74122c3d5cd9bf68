/**
 * A ticket as a model for the explorer: one request on one producer, and consumers that have its handoff.
 * Every message, WRITE, timer, loss and abort is a step of its own and may come in any order, as far as the
 * bounds allow it. What the machines decide, the shipped functions do.
 */
import type { Instant } from '@kvferry/connector-api'
import {
  isRegistrationOver,
  stepRegistration,
  type RegistrationEvent,
} from '@kvferry/connector-api/remote-writes'
import type { Model, ModelStep } from '@kvferry/connector-api/testing'
import { advance, endCopy, endWrite, hear, ticketEvent, writeEvent } from './producer.ts'
import { copy, error, fail, send, type Message, type ModelState, type Rules } from './state.ts'

export interface Bounds {
  readonly consumers: number
  /** Lost connections, lost notifications, failed WRITEs. */
  readonly faults: number
  /** Of a consumer, or of the prefill. */
  readonly aborts: number
}

type Act = (state: ModelState) => void

export function createTicketModel(rules: Rules, bounds: Bounds): Model<ModelState> {
  return {
    initial: initialState(bounds),
    key: (state) => JSON.stringify(state),
    judge: ({ problem }) => problem,
    judgeEnd,
    steps: function* (state) {
      for (const [name, act] of acts(state, rules)) yield step(state, name, act)
    },
  }
}

const initialState = ({ consumers, faults, aborts }: Bounds): ModelState => ({
  ticket: { kind: 'announced', claimant: null, isReading: false, isReleased: false, isGone: false },
  ...{ hasEnded: false, isFreed: false, isCopying: false, part: null, writes: [] },
  ...{ withdrawn: [], messages: [], problem: null },
  ...{ faultsLeft: faults, abortsLeft: aborts },
  consumers: Array.from({ length: consumers }, () => ({
    ...{ registration: { kind: 'connecting' }, hasClaimed: false, hasDecided: false },
    ...{ isReported: false, isRetrying: false, landed: 'none' },
  })),
})

function step(state: ModelState, name: string, act: Act): ModelStep<ModelState> {
  return {
    name,
    take() {
      const next = copy(state)
      act(next)
      // In which order they were sent is nobody's business.
      const texts = next.messages.map((message) => JSON.stringify(message))
      next.messages = texts.sort().map((text) => JSON.parse(text) as Message)
      return next
    },
  }
}

function judgeEnd({ ticket, hasEnded, isFreed, consumers, writes }: ModelState): string | null {
  const waiting = consumers.findIndex(({ isReported }) => !isReported)
  if (waiting !== -1) return `V1: consumer ${waiting} waits for ever`
  if (ticket.kind !== 'finished') return `V2: the ticket is ${ticket.kind} for ever`
  if (hasEnded && !isFreed) return 'V2: the blocks are held for ever'
  return writes.length > 0 ? 'V2: a WRITE is open for ever' : null
}

function registrationEvent(
  state: ModelState,
  rules: Rules,
  at: number,
  event: RegistrationEvent,
): void {
  const consumer = state.consumers[at]!
  const before = consumer.registration
  const now = 0 as Instant
  const { state: next, effects } = stepRegistration(before, event, now, undefined)
  consumer.registration = next
  for (const { kind } of effects) {
    if (kind === 'withdraw-later') consumer.isRetrying = true
    else send(state, kind, at)
  }
  const isEarly = rules.freesAtAbort && event.kind === 'withdraw'
  const isOver = !isRegistrationOver(before) && isRegistrationOver(next)
  if ((isOver || isEarly) && !consumer.isReported) {
    consumer.isReported = true
    consumer.isRetrying = false
    if (state.writes.includes(at)) fail(state, 'S1: reported while a WRITE into its blocks is open')
    const isWrong = next.kind === 'written' && consumer.landed !== 'good'
    if (isWrong) fail(state, 'S2: loaded with other bytes')
  }
}

function deliver(state: ModelState, rules: Rules, { kind, consumer }: Message): void {
  switch (kind) {
    case 'claim':
    case 'register':
    case 'withdraw':
    case 'release':
    case 'leave':
      return hear(state, rules, kind, consumer)
    case 'accept':
      return registrationEvent(state, rules, consumer, { kind })
    case 'refuse':
    case 'silence':
      return registrationEvent(state, rules, consumer, { kind, error })
    case 'withdrawn':
      return registrationEvent(state, rules, consumer, { kind: 'withdraw-end' })
    case 'written':
    case 'notification':
      return registrationEvent(state, rules, consumer, { kind: 'write-end' })
    case 'failed':
      return registrationEvent(state, rules, consumer, { kind: 'producer-fail', error })
  }
}

const fault =
  (act: Act): Act =>
  (state) => {
    state.faultsLeft -= 1
    act(state)
  }

const abort =
  (act: Act): Act =>
  (state) => {
    state.abortsLeft -= 1
    act(state)
  }

function* acts(state: ModelState, rules: Rules): Iterable<[string, Act]> {
  for (const [index, message] of state.messages.entries()) {
    const name = `arrives: ${message.kind} (consumer ${message.consumer})`
    const take: Act = (next) => deliver(next, rules, next.messages.splice(index, 1)[0]!)
    yield [name, take]
    if (message.kind !== 'notification' || state.faultsLeft === 0) continue
    // The same news goes over the association, which may be lost, too; then the consumer asks.
    const lose: Act = (next) => {
      next.messages.splice(index, 1)
      send(next, 'silence', message.consumer)
    }
    yield [`is lost: ${name}`, fault(lose)]
  }
  yield* producerActs(state, rules)
  for (const at of state.consumers.keys()) {
    for (const [name, act] of consumerActs(state, rules, at)) yield [`consumer ${at}: ${name}`, act]
  }
}

function* producerActs(state: ModelState, rules: Rules): Iterable<[string, Act]> {
  const { ticket, hasEnded, part } = state
  if (ticket.kind === 'announced' && !hasEnded) {
    const end: Act = (next) => {
      next.hasEnded = true
      ticketEvent(next, rules, { kind: 'register' })
      advance(next, rules)
    }
    yield ['its request ends', end]
    if (state.abortsLeft > 0) {
      const giveUp: Act = (next) => {
        writeEvent(next, rules, { kind: 'source-fail', error })
        ticketEvent(next, rules, { kind: 'withdraw' })
      }
      yield ['its client is gone', abort(giveUp)]
    }
  }
  if (hasEnded && ticket.kind !== 'finished' && state.abortsLeft > 0) {
    const lose: Act = (next) => void ticketEvent(next, rules, { kind: 'undelivered' })
    yield ['its answer reaches nobody', abort(lose)]
  }
  const isTimed = ticket.kind === 'unclaimed' || ticket.kind === 'claimed'
  const isCutOff = rules.expiresUnderRead && ticket.kind === 'reading' && !state.isFreed
  if (isTimed || isCutOff) {
    yield ['its time is over', (next) => void ticketEvent(next, rules, { kind: 'timer' })]
  }
  if (state.isCopying) yield ['history has copied it', (next) => endCopy(next, rules)]
  if (state.writes.length === 0) return
  if (part === null || part.state.kind === 'ended') {
    yield ['a WRITE for nobody ends', (next) => endWrite(next, rules, true)]
    return
  }
  yield ['the WRITE is done', (next) => endWrite(next, rules, true)]
  if (state.faultsLeft > 0) yield ['the WRITE fails', fault((next) => endWrite(next, rules, false))]
}

function* consumerActs(state: ModelState, rules: Rules, at: number): Iterable<[string, Act]> {
  const { registration, hasClaimed, hasDecided, isRetrying } = state.consumers[at]!
  const tell = (event: RegistrationEvent): Act => {
    return (next) => registrationEvent(next, rules, at, event)
  }
  if (!hasClaimed && !hasDecided) {
    const claim: Act = (next) => {
      next.consumers[at]!.hasClaimed = true
      send(next, 'claim', at)
    }
    yield ['claims', claim]
  }
  if (!hasDecided) {
    const decide = (event: RegistrationEvent): Act => {
      return (next) => {
        next.consumers[at]!.hasDecided = true
        registrationEvent(next, rules, at, event)
      }
    }
    yield ['has blocks', decide({ kind: 'link-ready' })]
    yield ['needs nothing', decide({ kind: 'withdraw', reason: error })]
  }
  const isAsked = registration.kind === 'registering' || registration.kind === 'registered'
  if (isAsked && state.abortsLeft > 0) {
    yield ['gives up', abort(tell({ kind: 'withdraw', reason: error }))]
  }
  if (isRetrying) {
    const again: Act = (next) => {
      next.consumers[at]!.isRetrying = false
      send(next, 'withdraw', at)
    }
    yield ['asks again', again]
  }
  // What a lost connection, or a heartbeat without an answer, tells; what was asked stays asked.
  if (isAsked && state.faultsLeft > 0) {
    const lose: Act = (next) => {
      send(next, 'leave', at)
      registrationEvent(next, rules, at, { kind: 'silence', error })
    }
    yield ['loses its connection', fault(lose)]
  }
}
