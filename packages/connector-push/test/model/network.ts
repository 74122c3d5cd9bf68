/** What passes between the engines of the model: messages in any order, lost connections, deaths. */
import type { RegistrationEvent } from '@kvferry/connector-api/remote-writes'
import { registrationEvent } from './consumer.ts'
import { answerWithdrawal, register, sourceEvent, writeEvent } from './producer.ts'
import type { Rules } from './rules.ts'
import { error, send, type Message, type ModelState } from './state.ts'

const heardByConsumer: Partial<Record<Message['kind'], RegistrationEvent>> = {
  accept: { kind: 'accept' },
  refuse: { kind: 'refuse', error },
  withdrawn: { kind: 'withdraw-end' },
  written: { kind: 'write-end' },
  silence: { kind: 'silence', error },
  notification: { kind: 'write-end' },
  done: { kind: 'write-end' },
  failed: { kind: 'producer-fail', error },
}

export function deliver(state: ModelState, rules: Rules, message: Message): void {
  const { kind, job: at, pair: index, life } = message
  const job = state.jobs[at]!
  const pair = job.pairs[index]!
  const event = heardByConsumer[kind]
  if (event !== undefined) {
    const isHeard = life === pair.askedLife || rules.ignoresLives
    if (isHeard) registrationEvent(state, rules, at, index, event)
    return
  }
  if (life !== pair.life) return
  if (kind === 'register') register(state, rules, at, index)
  else if (kind === 'withdraw') answerWithdrawal(state, rules, at, index)
  else if (kind === 'leave') {
    writeEvent(state, rules, at, index, { kind: 'leave' })
  } else if (pair.part === null && !pair.isReleased) {
    pair.isReleased = true
    sourceEvent(state, rules, at, index, { kind: 'part-end' })
  }
}

const overAssociation = new Set<Message['kind']>([
  ...(['register', 'withdraw', 'release', 'accept', 'refuse', 'withdrawn', 'written'] as const),
  ...(['done', 'failed'] as const),
])
const questions = new Set<Message['kind']>([
  ...(['register', 'withdraw', 'accept', 'refuse', 'withdrawn', 'written'] as const),
])

/** What was on its way is lost; who asked hears silence, and the producer that nobody waits any more. */
export function breakLink(state: ModelState, rules: Rules, at: number, index: number): void {
  const pair = state.jobs[at]!.pairs[index]!
  const isOurs = (message: Message): boolean => message.job === at && message.pair === index
  const lost = state.messages.filter((one) => isOurs(one) && overAssociation.has(one.kind))
  state.messages = state.messages.filter((one) => !lost.includes(one))
  pair.isLinked = false
  const unanswered =
    lost.filter(({ kind }) => questions.has(kind)).length + (pair.hasWaiter ? 1 : 0)
  pair.hasWaiter = false
  for (let count = 0; count < unanswered; count += 1) {
    send(state, { kind: 'silence', job: at, pair: index, life: pair.askedLife })
  }
  send(state, { kind: 'leave', job: at, pair: index, life: pair.life })
  const { kind } = pair.registration
  if (kind === 'registering' || kind === 'registered') {
    registrationEvent(state, rules, at, index, { kind: 'silence', error })
  }
}

/** `isReaped`: its process is gone; otherwise it goes on writing beside its next life. */
export function killProducer(
  state: ModelState,
  rules: Rules,
  at: number,
  index: number,
  isReaped: boolean,
): void {
  const pair = state.jobs[at]!.pairs[index]!
  const former = pair.life
  pair.life += 1
  pair.livingLives = [...pair.livingLives, pair.life]
  Object.assign(pair, {
    ...{ source: null, handedOver: 0, computed: 0, part: null, writtenEnd: 0, isOver: true },
    ...{ isWithdrawn: false, isReleased: false, isPreempting: false, hasRung: false },
  })
  if (isReaped) reap(state, at, index, former)
  // Notifications of a former life are on the network all the same.
  breakLink(state, rules, at, index)
}

export function reap(state: ModelState, at: number, index: number, life: number): void {
  const pair = state.jobs[at]!.pairs[index]!
  pair.livingLives = pair.livingLives.filter((other) => other !== life)
  pair.writes = pair.writes.filter((write) => write.life !== life)
}

export function killConsumer(state: ModelState, rules: Rules, at: number): void {
  const job = state.jobs[at]!
  job.isConsumerDead = true
  for (const index of job.pairs.keys()) breakLink(state, rules, at, index)
}
