/** What happens at a consumer of the model: the shipped machines decide, this performs their effects. */
import type { AnyConnectorError, TransferHandle, TransferTimes } from '@kvferry/connector-api'
import type { LoadOutcome } from '@kvferry/connector-api/protocol'
import type { LoadEffect, LoadEvent } from '../../src/load-state.ts'
import { connect, keyOf, leaveWhenIdle } from './connection.ts'
import { emptyMemory } from './producer.ts'
import type { Rules } from './rules.ts'
import {
  contentOf,
  type ClusterState,
  type ConsumedRequest,
  type ConsumerName,
  type ConsumerState,
  type Handoff,
} from './state.ts'

const noTimes = {} as TransferTimes
/** There is at most one per load: handles tell nothing apart. */
const noTransfer = 0 as TransferHandle
export const errorOf = (code: string): AnyConnectorError => ({ code }) as never

export const createConsumer = (life: number): ConsumerState => ({
  life,
  memory: emptyMemory(),
  requests: {},
  connections: {},
})

/** The router brings a handoff; the engine has blocks, and takes what it is offered. */
export function receiveHandoff(
  state: ClusterState,
  rules: Rules,
  name: ConsumerName,
  { job, producer, producerLife, blocks }: Handoff,
): void {
  const request: ConsumedRequest = {
    job,
    producer,
    producerLife,
    loadId: 1,
    remoteBlocks: blocks,
    blocks,
    request: { kind: 'offered' } as ConsumedRequest['request'],
    load: null,
    outbox: [],
    reports: [],
  }
  state.consumers[name]!.requests[job] = request
  const blockIds = [Uint32Array.from(blocks)]
  const event = { kind: 'allocated-for-load', blockIds } as const
  const next = rules.consumer(request.request, event, state.now, undefined)
  request.request = next.state
  for (const effect of next.effects) request.outbox.push(effect.kind)
}

/** The client is gone. */
export function abortRequest(
  state: ClusterState,
  rules: Rules,
  name: ConsumerName,
  job: string,
): void {
  const request = state.consumers[name]!.requests[job]!
  const next = rules.consumer(request.request, { kind: 'finished' }, state.now, undefined)
  request.request = next.state
  for (const effect of next.effects) request.outbox.push(effect.kind)
}

/** One engine step: the scheduler half's words reach the worker half, and the reports come back. */
export function stepConsumerEngine(state: ClusterState, rules: Rules, name: ConsumerName): void {
  for (const request of Object.values(state.consumers[name]!.requests)) {
    const { outbox } = request
    request.outbox = []
    for (const entry of outbox) {
      if (entry === 'load') startLoad(state, rules, name, request)
      else if (entry === 'abort') loadEvent(state, rules, name, request.job, { kind: 'abort' })
      else tellRelease(state, name, request)
    }
  }
  flush(state, rules, name)
  for (const request of Object.values(state.consumers[name]!.requests)) {
    const { reports } = request
    request.reports = []
    for (const outcome of reports) receive(state, rules, name, request, outcome)
  }
}

function startLoad(
  state: ClusterState,
  rules: Rules,
  name: ConsumerName,
  request: ConsumedRequest,
): void {
  request.load = { kind: 'connecting' }
  const answer = connect(state, name, keyOf(request), request)
  if (answer === 'ready') loadEvent(state, rules, name, request.job, { kind: rules.readyEvent })
  if (answer !== 'unavailable') return
  const error = errorOf('ERR_KV_PEER_UNAVAILABLE')
  loadEvent(state, rules, name, request.job, { kind: 'peer-fail', error })
}

/** What the engine does with a report: it relies on the bytes, or writes its own into the blocks. */
function receive(
  state: ClusterState,
  rules: Rules,
  name: ConsumerName,
  request: ConsumedRequest,
  outcome: LoadOutcome,
): void {
  const { job, blocks, producerLife } = request
  const consumer = state.consumers[name]!
  request.request = rules.consumer(
    request.request,
    { kind: 'received' },
    state.now,
    undefined,
  ).state
  const isTouched = state.transfers.some((open) => open.consumer === name && open.job === job)
  if (isTouched) state.problem = `S1: ${name} uses ${job}'s blocks while a READ may write into them`
  const wanted = contentOf(job, producerLife)
  if (outcome.kind === 'loaded' && blocks.some((block) => consumer.memory[block] !== wanted)) {
    const found = blocks.map((block) => consumer.memory[block]).join()
    state.problem = `S2: ${name} relies on ${job} and holds ${found} instead of ${wanted}`
  }
  for (const block of blocks) consumer.memory[block] = 'x'
  delete consumer.requests[job]
}

/** Late events of a load that is over and forgotten are dropped by the shell, as here. */
export function loadEvent(
  state: ClusterState,
  rules: Rules,
  name: ConsumerName,
  job: string,
  event: LoadEvent,
): void {
  const request = state.consumers[name]!.requests[job]
  if (request === undefined || request.load === null) return
  const next = rules.load(request.load, event, state.now, undefined)
  request.load = next.state
  for (const effect of next.effects) perform(state, name, request, effect)
}

function perform(
  state: ClusterState,
  name: ConsumerName,
  request: ConsumedRequest,
  effect: LoadEffect,
): void {
  switch (effect.kind) {
    case 'post':
      // When the turn ends (`flush`).
      return
    case 'ask':
      ask(state, name, request)
      return
    case 'release':
      tellRelease(state, name, request)
      return
    case 'report':
      request.reports.push(effect.outcome)
      return
  }
}

const readerOf = (state: ClusterState, name: ConsumerName, { loadId }: ConsumedRequest) => ({
  engineId: name as never,
  incarnation: `${name}/${state.consumers[name]!.life}` as never,
  loadId,
})

function ask(state: ClusterState, name: ConsumerName, request: ConsumedRequest): void {
  const { job, producer } = request
  const connection = state.consumers[name]!.connections[keyOf(request)]
  if (connection === undefined || !connection.isOpen) {
    state.messages.push({ kind: 'silence', consumer: name, job })
    return
  }
  state.messages.push({
    kind: 'question',
    consumer: name,
    job,
    producer,
    producerLife: connection.life,
    reader: readerOf(state, name, request),
    sentAt: state.now,
  })
}

function tellRelease(state: ClusterState, name: ConsumerName, request: ConsumedRequest): void {
  const { job, producer, producerLife } = request
  const event = { kind: 'release', reader: readerOf(state, name, request) } as const
  state.messages.push({ kind: 'news', event, job, producer, producerLife })
}

/** The end of a turn: what became ready in it is posted, unless an abort came in the same turn. */
export function flush(state: ClusterState, rules: Rules, name: ConsumerName): void {
  for (const { job, load } of Object.values(state.consumers[name]!.requests)) {
    if (load?.kind === 'posting') postRead(state, rules, name, job)
  }
}

function postRead(state: ClusterState, rules: Rules, name: ConsumerName, job: string): void {
  const request = state.consumers[name]!.requests[job]!
  const connection = state.consumers[name]!.connections[keyOf(request)]!
  state.transfers.push({
    consumer: name,
    job,
    producer: request.producer,
    producerLife: connection.life,
    copied: 0,
    remains: null,
    isOverdue: false,
    postedAt: state.now,
  })
  loadEvent(state, rules, name, job, { kind: 'post-end', transfer: noTransfer })
}

/** A READ's final status is known to the worker half. */
export function completeRead(
  state: ClusterState,
  rules: Rules,
  name: ConsumerName,
  job: string,
  isDone: boolean,
): void {
  const request = state.consumers[name]!.requests[job]
  loadEvent(
    state,
    rules,
    name,
    job,
    isDone
      ? { kind: 'transfer-done', times: noTimes }
      : { kind: 'transfer-fail', times: noTimes, error: errorOf('ERR_KV_TRANSFER_FAILED') },
  )
  if (request !== undefined) leaveWhenIdle(state, rules, name, keyOf(request), isDone)
}

export { readerOf }
