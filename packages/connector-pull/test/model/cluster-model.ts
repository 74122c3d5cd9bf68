/**
 * Pull as a model for the explorer: two producers, two consumers, two jobs, three blocks an engine. Every
 * message, copy of a block, engine step, timer, death, loss and abort is a step of its own and may come in
 * any order, as long as the bounds allow it. What the machines decide is decided by the shipped functions.
 */
import type { Model, ModelStep } from '@kvferry/connector-api/testing'
import { handshakeStep } from './connection.ts'
import { abortRequest, createConsumer, receiveHandoff, stepConsumerEngine } from './consumer.ts'
import { flush } from './loads.ts'
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
  loseAnswer,
  names,
  stepProducerEngine,
} from './producer.ts'
import type { Rules } from './rules.ts'
import {
  copy,
  type ClusterState,
  type ConsumerName,
  type ProducerName,
  type Ranks,
} from './state.ts'

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
  /** Of each producer and each consumer; default one. */
  readonly ranks?: Ranks
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

const oneEach: Ranks = { producer: 1, consumer: 1 }

function initialState({ jobs, faults, aborts, ranks = oneEach }: Bounds): ClusterState {
  const jobsOf = (name: ProducerName): string[] =>
    Object.keys(jobs).filter((job) => jobs[job]!.producer === name)
  const all = Object.values(jobs)
  const producers = [...new Set(all.map(({ producer }) => producer))]
  const consumers = [...new Set(all.flatMap((job) => job.consumers))]
  const create = (name: ProducerName) => createProducer(1, jobsOf(name), ranks.producer)
  return {
    ranks,
    now: instant(0),
    faultsLeft: faults,
    abortsLeft: aborts,
    producers: Object.fromEntries(producers.map((name) => [name, create(name)])),
    consumers: Object.fromEntries(consumers.map((name) => [name, createConsumer(1, ranks)])),
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
    for (const [job, { request, leases }] of Object.entries(requests)) {
      // A later life only answers for what its former one promised.
      if (request.kind === 'announced' && life === 1) {
        yield [`${name} has computed ${job}`, (next) => finishPrefill(next, rules, name, job)]
      }
      const lease = leases[0]!.state
      if (rules.believesForgeries && lease?.kind === 'leased') {
        const stranger = { engineId: 'x' as never, incarnation: 'x' as never, loadId: 0 }
        const reader = lease.claim?.reader ?? stranger
        const event = { kind: 'read-done', reader, share: { rank: 0, count: 1 } } as const
        yield [
          `a stranger tells ${name} that ${job} was read`,
          (next) => void leaseEvent(next, rules, name, job, 0, event),
        ]
      }
    }
    if (outbox.length + sent.length > 0) {
      yield [`${name} steps`, (next) => stepProducerEngine(next, rules, name)]
    }
  }
  for (const [name, job, rank] of dueTimers(state)) {
    yield [
      `${name}'s timer of ${job} rings (${rank})`,
      (next) => void leaseEvent(next, rules, name, job, rank, { kind: 'timer' }),
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
    const hasNews = Object.values(requests).some(
      ({ outbox, reports }) => outbox.length > 0 || reports.every((of) => of.length > 0),
    )
    if (hasNews) {
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
    const { consumer, job, pair, copied, remains, isOverdue, postedAt } = transfer
    const request = state.consumers[consumer]!.requests[job]
    const what = `${consumer}'s READ of ${job} (${pair})`
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
  for (const name of names(state.producers)) {
    for (const [job, { request }] of Object.entries(state.producers[name]!.requests)) {
      if (request.kind !== 'leased') continue
      yield [
        `the answer with ${job} of ${name} reaches nobody`,
        (next) => loseAnswer(next, rules, name, job),
      ]
    }
  }
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
  for (const [index, { consumer, job, pair, remains }] of state.transfers.entries()) {
    if (remains !== null) continue
    const what = `${consumer}'s READ of ${job} (${pair}) fails`
    yield [what, (next) => endRead(next, next.transfers[index]!, false)]
  }
  for (const [index, message] of state.messages.entries()) {
    if (message.kind !== 'news') continue
    const what = describeMessage(message)
    yield [`is lost: ${what}`, (next) => void next.messages.splice(index, 1)]
    yield [`is doubled: ${what}`, (next) => void next.messages.push(next.messages[index]!)]
  }
}
