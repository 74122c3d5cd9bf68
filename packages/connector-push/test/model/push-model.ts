/**
 * Push as a model for the explorer: a job is a prompt of two chunks on one or two producer ranks, for one
 * consumer. Every message, forward, WRITE, timer, death, loss, abort and preemption is a step of its own and
 * may come in any order, as far as the bounds allow it. What the machines decide, the shipped functions do.
 */
import type { Model, ModelStep } from '@kvferry/connector-api/testing'
import { loadEvent, registrationEvent, withdraw } from './consumer.ts'
import { breakLink, deliver, killConsumer, killProducer, reap } from './network.ts'
import { advance, canPreempt, endWrite, sourceEvent, writeEvent } from './producer.ts'
import type { Rules } from './rules.ts'
import { chunkCount, copy, error, send, type Job, type ModelState, type Pair } from './state.ts'

export interface Bounds {
  /** Producer ranks of each job. */
  readonly ranks: readonly number[]
  /** Deaths, lost connections, lost or doubled notifications, failed WRITEs. */
  readonly faults: number
  /** Of the consumer, its deadline, or of the producer. */
  readonly aborts: number
  readonly preemptions: number
}

type Act = (state: ModelState) => void

export function createPushModel(rules: Rules, bounds: Bounds): Model<ModelState> {
  return {
    initial: initialState(bounds),
    key: (state) => JSON.stringify(state),
    judge,
    judgeEnd,
    steps: function* (state) {
      for (const [name, act] of acts(state, rules)) yield step(state, name, act)
    },
  }
}

const createPair = (): Pair => ({
  ...{ registration: { kind: 'connecting' }, isRetrying: false, landed: ['none', 'none'] },
  ...{ life: 1, source: null, handedOver: 0, computed: 0, generation: 0, part: null },
  ...{ writtenEnd: 0, hasWaiter: false, isWithdrawn: false, isReleased: false, isOver: false },
  ...{ isPreempting: false, hasRung: false, isLinked: false, askedLife: 0, livingLives: [1] },
  writes: [],
})

const initialState = ({ ranks, faults, aborts, preemptions }: Bounds): ModelState => ({
  jobs: ranks.map((count) => ({
    load: { kind: 'waiting', openCount: count, failure: null, isAborted: false },
    ...{ isReported: false, isConsumerDead: false, hasStarted: false },
    pairs: Array.from({ length: count }, createPair),
  })),
  messages: [],
  ...{ faultsLeft: faults, abortsLeft: aborts, preemptionsLeft: preemptions, problem: null },
})

function step(state: ModelState, name: string, act: Act): ModelStep<ModelState> {
  return {
    name,
    take() {
      const next = copy(state)
      act(next)
      // In which order they were sent is nobody's business.
      const texts = next.messages.map((message) => JSON.stringify(message))
      next.messages = texts.sort().map((text) => JSON.parse(text) as never)
      return next
    },
  }
}

function judge({ jobs, problem }: ModelState): string | null {
  if (problem !== null) return problem
  const at = jobs.findIndex(
    ({ isReported, isConsumerDead, pairs }) =>
      isReported && !isConsumerDead && pairs.some(({ writes }) => writes.length > 0),
  )
  return at === -1 ? null : `S1: job ${at} is reported, and a WRITE into its blocks is open`
}

function judgeEnd({ jobs }: ModelState): string | null {
  for (const [at, { isReported, isConsumerDead, pairs }] of jobs.entries()) {
    if (!isReported && !isConsumerDead) return `V1: job ${at} waits for ever`
    for (const { source, writes } of pairs) {
      if (source !== null && source.kind !== 'ended')
        return `V2: job ${at} is ${source.kind} for ever`
      if (writes.length > 0) return `V2: job ${at}: a WRITE is open for ever`
    }
  }
  return null
}

function* acts(state: ModelState, rules: Rules): Iterable<[string, Act]> {
  for (const [index, message] of state.messages.entries()) {
    const name = `arrives: ${message.kind} (job ${message.job}, rank ${message.pair})`
    yield [name, (next) => deliver(next, rules, next.messages.splice(index, 1)[0]!)]
    if (message.kind !== 'notification' || state.faultsLeft === 0) continue
    yield [`is lost: ${name}`, fault((next) => void next.messages.splice(index, 1))]
    yield [`is doubled: ${name}`, fault((next) => void next.messages.push(message))]
  }
  for (const [at, job] of state.jobs.entries()) {
    yield* consumerActs(state, rules, at, job)
    for (const [index, pair] of job.pairs.entries()) {
      const where = `job ${at}, rank ${index}:`
      for (const [name, act] of sourceActs(state, rules, at, index, pair)) {
        yield [`${where} ${name}`, act]
      }
      for (const [name, act] of linkActs(state, rules, at, index, pair)) {
        yield [`${where} ${name}`, act]
      }
    }
  }
}

const fault =
  (act: Act): Act =>
  (state) => {
    state.faultsLeft -= 1
    act(state)
  }

function* consumerActs(
  state: ModelState,
  rules: Rules,
  at: number,
  { hasStarted, isConsumerDead, load, pairs }: Job,
): Iterable<[string, Act]> {
  if (isConsumerDead) return
  if (!hasStarted) {
    yield [
      `the consumer of job ${at} has blocks`,
      (next) => {
        next.jobs[at]!.hasStarted = true
        for (const index of pairs.keys()) {
          registrationEvent(next, rules, at, index, { kind: 'link-ready' })
        }
      },
    ]
    yield [
      `the consumer of job ${at} needs nothing`,
      (next) => {
        next.jobs[at]!.isConsumerDead = true
        for (const [index, { life }] of pairs.entries()) {
          send(next, { kind: 'release', job: at, pair: index, life })
        }
      },
    ]
  }
  if (state.faultsLeft > 0) {
    yield [`the consumer of job ${at} dies`, fault((next) => killConsumer(next, rules, at))]
  }
  if (state.abortsLeft === 0 || !hasStarted || load.kind !== 'waiting') return
  for (const kind of ['abort', 'deadline'] as const) {
    yield [
      `the consumer of job ${at}: ${kind}`,
      (next) => {
        next.abortsLeft -= 1
        loadEvent(next, rules, at, { kind, reason: error, error })
      },
    ]
  }
}

function* sourceActs(
  state: ModelState,
  rules: Rules,
  at: number,
  index: number,
  { source, part, life, handedOver, computed, generation, isPreempting, hasRung, isOver }: Pair,
): Iterable<[string, Act]> {
  const of = (next: ModelState): Pair => next.jobs[at]!.pairs[index]!
  const tell = (event: Parameters<typeof sourceEvent>[4]): Act => {
    return (next) => sourceEvent(next, rules, at, index, event)
  }
  if (source === null && life === 1 && !isOver) {
    yield ['its prefill begins', (next) => void (of(next).source = { kind: 'computing' })]
  }
  const isComputing = source?.kind === 'computing' || source?.kind === 'computed'
  const isIdle = isComputing && computed === handedOver && !isPreempting
  if (isIdle && handedOver < chunkCount) {
    yield [
      'a forward begins',
      (next) => {
        of(next).handedOver += 1
        if (handedOver + 1 === chunkCount) tell({ kind: 'compute-end' })(next)
        advance(next, rules, at, index)
      },
    ]
  }
  if (computed < handedOver) {
    yield [
      'its forward ends',
      (next) => {
        of(next).computed = handedOver
        for (const write of of(next).writes) write.isBehindFence = false
      },
    ]
  }
  if (isIdle && computed === chunkCount) yield ['its request ends', tell({ kind: 'finish' })]
  if (isIdle && handedOver > 0 && state.preemptionsLeft > 0) {
    const preempt: Act = (next) => {
      next.preemptionsLeft -= 1
      tell({ kind: 'preempt' })(next)
    }
    yield ['it is preempted', preempt]
  }
  if (isPreempting && canPreempt(part, rules)) {
    const giveAway: Act = (next) =>
      void Object.assign(of(next), { isPreempting: false, generation: generation + 1 })
    yield ['its blocks are given away', giveAway]
  } else if (isPreempting && part !== null && !('isLast' in part && part.isLast)) {
    const event = { kind: 'source-fail', error } as const
    yield ['its preemption waits no longer', (next) => writeEvent(next, rules, at, index, event)]
  }
  if (isComputing && !isPreempting && state.abortsLeft > 0) {
    const wasHandedOver = handedOver > 0 || generation > 0
    yield [
      'its client is gone',
      (next) => {
        next.abortsLeft -= 1
        tell({ kind: wasHandedOver ? 'abort' : 'withdraw', error })(next)
      },
    ]
  }
  if ((source?.kind === 'held' || source?.kind === 'draining') && state.abortsLeft > 0) {
    yield [
      'its answer reaches nobody',
      (next) => {
        next.abortsLeft -= 1
        tell({ kind: 'undelivered' })(next)
      },
    ]
  }
  if (source?.kind === 'held' && !hasRung) {
    const ring: Act = (next) => {
      of(next).hasRung = part !== null && part.kind !== 'ended'
      tell({ kind: 'timer' })(next)
    }
    yield ['its lease ends', ring]
  }
}

function* linkActs(
  state: ModelState,
  rules: Rules,
  at: number,
  index: number,
  pair: Pair,
): Iterable<[string, Act]> {
  const { source, part, registration, isLinked, isRetrying, life, askedLife, livingLives } = pair
  const isOpen = part !== null && part.kind !== 'ended'
  const hear = (event: Parameters<typeof registrationEvent>[4]): Act => {
    return (next) => registrationEvent(next, rules, at, index, event)
  }
  if (isOpen && source === null) {
    const event = { kind: 'source-fail', error } as const
    yield ['no prefill comes', (next) => writeEvent(next, rules, at, index, event)]
  }
  for (const [which, { isBehindFence, start }] of pair.writes.entries()) {
    if (isBehindFence && !rules.postsBeforeFence) continue
    const end = (isDone: boolean): Act => {
      return (next) => endWrite(next, rules, at, index, which, isDone)
    }
    yield [`the WRITE from chunk ${start} is done`, end(true)]
    if (state.faultsLeft > 0) yield [`the WRITE from chunk ${start} fails`, fault(end(false))]
  }
  if (isRetrying) yield ['the consumer asks again', (next) => withdraw(next, rules, at, index)]
  if (registration.kind === 'registered' && isLinked && !isOpen && life === askedLife) {
    yield ['a heartbeat finds nothing', hear({ kind: 'silence', error })]
  }
  if (rules.believesStrangers && registration.kind === 'registered') {
    yield ['a stranger says that all is written', hear({ kind: 'write-end' })]
  }
  for (const former of livingLives.filter((one) => one !== life)) {
    yield ['its former process is gone', (next) => reap(next, at, index, former)]
  }
  if (state.faultsLeft === 0) return
  if (isLinked) yield ['loses its connection', fault((next) => breakLink(next, rules, at, index))]
  if (askedLife === 0 && source === null) return
  for (const isReaped of [true, false]) {
    const name = isReaped ? 'the producer dies' : 'the producer is replaced, and writes on'
    yield [name, fault((next) => killProducer(next, rules, at, index, isReaped))]
  }
}
