/**
 * Pull as a model for the explorer: two producers, two consumers, two jobs, three blocks an engine. Every
 * message, copy of a block, engine step, timer, death, loss and abort is a step of its own and may come in
 * any order, as long as the bounds allow it. What the machines decide is decided by the shipped functions.
 */
import type { Model, ModelStep } from '@kvferry/connector-api/testing'
import { handshakeStep } from './connection.ts'
import {
  flush,
  abortRequest,
  createConsumer,
  receiveHandoff,
  stepConsumerEngine,
} from './consumer.ts'
import { isTimeWanted, judgeEnd, normalise } from './cluster-state.ts'
import { describeMessage } from './describe-message.ts'
import {
  breakAssociation,
  copyBlock,
  deliver,
  endRead,
  killConsumer,
  killProducer,
  passDeadline,
} from './network.ts'
import {
  createProducer,
  dueTimers,
  finishPrefill,
  instant,
  leaseEvent,
  names,
  stepProducerEngine,
} from './producer.ts'
import type { Rules } from './rules.ts'
import { copy, type ProducerName, type ConsumerName, type ClusterState } from './state.ts'

export interface Bounds {
  /** Which producer computes which job, and which consumers get its handoff. */
  readonly jobs: Readonly<
    Record<string, { readonly producer: ProducerName; readonly consumers: readonly ConsumerName[] }>
  >
  /** Deaths, lost connections, lost or doubled notifications, failed READs. */
  readonly faults: number
  readonly aborts: number
  /** Time passes in seconds; a lease lasts two. */
  readonly seconds: number
  /** Whether something may come between the steps of a handshake. */
  readonly isHandshakeStepwise: boolean
}

const secondMs = 1_000

type Act = (state: ClusterState) => void

export function createClusterModel(rules: Rules, bounds: Bounds): Model<ClusterState> {
  return {
    initial: initialState(bounds),
    key: (state) => JSON.stringify(state),
    judge: ({ problem }) => problem,
    judgeEnd: (state) => judgeEnd(state, bounds.seconds * secondMs),
    steps: (state) => stepsOf(state, rules, bounds),
  }
}

function initialState({ jobs, faults, aborts }: Bounds): ClusterState {
  const jobsOf = (name: ProducerName): string[] =>
    Object.keys(jobs).filter((job) => jobs[job]!.producer === name)
  const all = Object.values(jobs)
  const producers = [...new Set(all.map(({ producer }) => producer))]
  const consumers = [...new Set(all.flatMap((job) => job.consumers))]
  return {
    now: instant(0),
    faultsLeft: faults,
    abortsLeft: aborts,
    producers: Object.fromEntries(producers.map((name) => [name, createProducer(1, jobsOf(name))])),
    consumers: Object.fromEntries(consumers.map((name) => [name, createConsumer(1)])),
    transfers: [],
    messages: [],
    handoffs: [],
    dispatches: Object.entries(jobs).flatMap(([job, of]) =>
      of.consumers.map((consumer) => ({ job, consumer })),
    ),
    problem: null,
  }
}

function* stepsOf(
  state: ClusterState,
  rules: Rules,
  bounds: Bounds,
): Iterable<ModelStep<ClusterState>> {
  const step = (name: string, act: Act): ModelStep<ClusterState> => ({
    name: `${state.now / secondMs} s  ${name}`,
    take() {
      const next = copy(state)
      act(next)
      normalise(next)
      return next
    },
  })
  for (const [name, act] of producerActs(state, rules)) yield step(name, act)
  for (const [name, act] of consumerActs(state, rules, bounds)) yield step(name, act)
  for (const [name, act] of networkActs(state, rules)) yield step(name, act)
  if (state.now < bounds.seconds * secondMs && isTimeWanted(state)) {
    yield step('a second passes', (next) => {
      next.now = instant(next.now + secondMs)
    })
  }
  if (state.abortsLeft > 0) {
    for (const [name, act] of abortActs(state, rules)) {
      yield step(name, (next) => {
        next.abortsLeft -= 1
        act(next)
      })
    }
  }
  if (state.faultsLeft === 0) return
  for (const [name, act] of faultActs(state)) {
    yield step(name, (next) => {
      next.faultsLeft -= 1
      act(next)
    })
  }
}

function* producerActs(state: ClusterState, rules: Rules): Iterable<[string, Act]> {
  for (const name of names(state.producers)) {
    const { life, requests, outbox, sent } = state.producers[name]!
    for (const [job, { request, lease }] of Object.entries(requests)) {
      // A later life only answers for what its former one promised.
      if (request.kind === 'announced' && life === 1) {
        yield [`${name} has computed ${job}`, (next) => finishPrefill(next, rules, name, job)]
      }
      if (rules.believesForgeries && lease?.kind === 'leased') {
        const reader = lease.reader ?? {
          engineId: 'x' as never,
          incarnation: 'x' as never,
          loadId: 0,
        }
        yield [
          `a stranger tells ${name} that ${job} was read`,
          (next) => void leaseEvent(next, rules, name, job, { kind: 'read-done', reader }),
        ]
      }
    }
    if (outbox.length + sent.length > 0) {
      yield [`${name} steps`, (next) => stepProducerEngine(next, rules, name)]
    }
  }
  for (const [name, job] of dueTimers(state)) {
    yield [
      `${name}'s timer of ${job} rings`,
      (next) => void leaseEvent(next, rules, name, job, { kind: 'timer' }),
    ]
  }
}

function* consumerActs(
  state: ClusterState,
  rules: Rules,
  { isHandshakeStepwise }: Bounds,
): Iterable<[string, Act]> {
  for (const [index, { job, consumer }] of state.dispatches.entries()) {
    const handoff = state.handoffs.find((other) => other.job === job)
    if (handoff === undefined || state.consumers[consumer]!.requests[job] !== undefined) continue
    yield [
      `${consumer} gets ${job}`,
      (next) => {
        next.dispatches.splice(index, 1)
        receiveHandoff(next, rules, consumer, handoff)
      },
    ]
  }
  for (const name of names(state.consumers)) {
    const { requests, connections } = state.consumers[name]!
    if (Object.values(requests).some(({ outbox, reports }) => outbox.length + reports.length > 0)) {
      yield [`${name} steps`, (next) => stepConsumerEngine(next, rules, name)]
    }
    for (const key of Object.keys(connections)) {
      const kind = connections[key]!.state.kind
      if (kind === 'ready' || kind === 'wired' || kind === 'draining') continue
      yield [
        `${name} goes on with its handshake with ${key} (${kind})`,
        (next) => {
          handshakeStep(next, rules, name, key)
          if (isHandshakeStepwise) return
          for (let count = 0; count < 2; count += 1) handshakeStep(next, rules, name, key)
        },
      ]
    }
  }
}

function* networkActs(state: ClusterState, rules: Rules): Iterable<[string, Act]> {
  for (const [index, transfer] of state.transfers.entries()) {
    const { consumer, job, copied, remains, isOverdue, postedAt } = transfer
    const request = state.consumers[consumer]!.requests[job]
    const what = `${consumer}'s READ of ${job}`
    const count = request?.remoteBlocks.length ?? copied
    if (copied < count) {
      yield [`${what} copies block ${copied}`, (next) => copyBlock(next, next.transfers[index]!)]
    } else yield [`${what} is done`, (next) => endRead(next, next.transfers[index]!, true)]
    if (remains !== null) {
      yield [`${what} fails`, (next) => endRead(next, next.transfers[index]!, false)]
    }
    if (!isOverdue && state.now > postedAt) {
      yield [
        `${what} passes its deadline`,
        (next) => passDeadline(next, rules, next.transfers[index]!),
      ]
    }
  }
  for (const [index, message] of state.messages.entries()) {
    yield [
      `arrives: ${describeMessage(message)}`,
      (next) => {
        const [taken] = next.messages.splice(index, 1)
        deliver(next, rules, taken!)
        for (const name of names(next.consumers)) flush(next, rules, name)
      },
    ]
  }
}

function* abortActs(state: ClusterState, rules: Rules): Iterable<[string, Act]> {
  for (const name of names(state.consumers)) {
    for (const { job, request } of Object.values(state.consumers[name]!.requests)) {
      if (request.kind !== 'loading') continue
      yield [
        `the client of ${job} at ${name} is gone`,
        (next) => abortRequest(next, rules, name, job),
      ]
    }
  }
}

function* faultActs(state: ClusterState): Iterable<[string, Act]> {
  const isBusy = (name: ConsumerName): boolean =>
    Object.keys(state.consumers[name]!.requests).length > 0
  // What strikes when nothing is under way changes nothing.
  for (const name of names(state.producers)) {
    if (!names(state.consumers).some(isBusy)) continue
    yield [`${name} dies and comes back`, (next) => killProducer(next, name)]
  }
  for (const name of names(state.consumers)) {
    if (!isBusy(name)) continue
    yield [`${name} dies and comes back`, (next) => killConsumer(next, name)]
    for (const [key, { isOpen }] of Object.entries(state.consumers[name]!.connections)) {
      if (!isOpen) continue
      yield [`${name} loses its connection to ${key}`, (next) => breakAssociation(next, name, key)]
    }
  }
  for (const [index, { consumer, job, remains }] of state.transfers.entries()) {
    if (remains !== null) continue
    const what = `${consumer}'s READ of ${job} fails`
    yield [what, (next) => endRead(next, next.transfers[index]!, false)]
  }
  for (const [index, message] of state.messages.entries()) {
    if (message.kind !== 'news') continue
    const what = describeMessage(message)
    yield [`is lost: ${what}`, (next) => void next.messages.splice(index, 1)]
    yield [`is doubled: ${what}`, (next) => void next.messages.push(next.messages[index]!)]
  }
}
