/** The loads of a consumer of the model, on each of its ranks, and the READs of which each is made. */
import type { AnyConnectorError, TransferHandle, TransferTimes } from '@kvferry/connector-api'
import type { LoadEvent } from '@kvferry/connector-api/protocol'
import type { Share } from '../../src/lease-state.ts'
import type { ReadEffect, ReadEvent } from '../../src/read-state.ts'
import { connect, keyOf, leaveWhenIdle } from './connection.ts'
import type { Rules } from './rules.ts'
import {
  consumerRankOf,
  pairsOf,
  type ClusterState,
  type ConsumedRequest,
  type ConsumerName,
  type Ranks,
} from './state.ts'

const noTimes = {} as TransferTimes
/** There is at most one per READ: handles tell nothing apart. */
const noTransfer = 0 as TransferHandle
export const errorOf = (code: string): AnyConnectorError => ({ code }) as never

export function startLoad(
  state: ClusterState,
  rules: Rules,
  name: ConsumerName,
  request: ConsumedRequest,
): void {
  for (const rank of request.loads.keys()) {
    const openCount = pairsOfRank(state.ranks, rank).length
    request.loads[rank] = { kind: 'waiting', openCount, failure: null, isAborted: false }
  }
  for (const pair of pairsOf(state.ranks)) request.reads[pair] = { kind: 'connecting' }
  for (const pair of pairsOf(state.ranks)) startRead(state, rules, name, request, pair)
}

function startRead(
  state: ClusterState,
  rules: Rules,
  name: ConsumerName,
  request: ConsumedRequest,
  pair: number,
): void {
  // Another one's failure may have ended it already.
  if (request.reads[pair]!.kind !== 'connecting') return
  const { job } = request
  const answer = connect(state, name, keyOf(request, pair), request)
  if (answer === 'ready') readEvent(state, rules, name, job, pair, { kind: rules.readyEvent })
  if (answer !== 'unavailable') return
  const error = errorOf('ERR_KV_PEER_UNAVAILABLE')
  readEvent(state, rules, name, job, pair, { kind: 'peer-fail', error })
}

const pairsOfRank = (ranks: Ranks, rank: number): number[] =>
  pairsOf(ranks).filter((pair) => consumerRankOf(ranks, pair) === rank)

export function abortLoad(
  state: ClusterState,
  rules: Rules,
  name: ConsumerName,
  request: ConsumedRequest,
): void {
  const reason = errorOf('ERR_KV_CLOSED')
  for (const rank of request.loads.keys()) {
    loadEvent(state, rules, name, request, rank, { kind: 'abort', reason })
  }
}

/** Late events of a READ whose request is over and forgotten are dropped by the shell, as here. */
export function readEvent(
  state: ClusterState,
  rules: Rules,
  name: ConsumerName,
  job: string,
  pair: number,
  event: ReadEvent,
): void {
  const request = state.consumers[name]!.requests[job]
  const read = request?.reads[pair] ?? null
  if (request === undefined || read === null) return
  const next = rules.read(read, event, state.now, undefined)
  request.reads[pair] = next.state
  for (const effect of next.effects) perform(state, rules, name, request, pair, effect)
}

function perform(
  state: ClusterState,
  rules: Rules,
  name: ConsumerName,
  request: ConsumedRequest,
  pair: number,
  effect: ReadEffect,
): void {
  switch (effect.kind) {
    case 'post':
      // When the turn ends (`flush`).
      return
    case 'ask':
      ask(state, name, request, pair)
      return
    case 'release':
      tellRelease(state, name, request, pair)
      return
    case 'report': {
      const { outcome } = effect
      const rank = consumerRankOf(state.ranks, pair)
      const event: LoadEvent =
        outcome.kind === 'failed'
          ? { kind: 'part-failed', error: outcome.error }
          : { kind: 'part-done' }
      loadEvent(state, rules, name, request, rank, event)
    }
  }
}

const drainingKinds: readonly string[] = ['draining', 'draining-overdue', 'ended']

function loadEvent(
  state: ClusterState,
  rules: Rules,
  name: ConsumerName,
  request: ConsumedRequest,
  rank: number,
  event: LoadEvent,
): void {
  const load = request.loads[rank]!
  if (load === null) return
  const next = rules.load(load, event, state.now, undefined)
  request.loads[rank] = next.state
  for (const effect of next.effects) {
    if (effect.kind === 'report') request.reports[rank]!.push(effect.outcome)
    if (effect.kind === 'finish') {
      loadEvent(state, rules, name, request, rank, { kind: 'finish-end', error: null })
    }
    if (effect.kind !== 'end-parts') continue
    for (const pair of pairsOfRank(state.ranks, rank)) {
      if (drainingKinds.includes(request.reads[pair]!.kind)) continue
      readEvent(state, rules, name, request.job, pair, { kind: 'abort' })
    }
  }
}

export const readerOf = (state: ClusterState, name: ConsumerName, { loadId }: ConsumedRequest) => ({
  engineId: name as never,
  incarnation: `${name}/${state.consumers[name]!.life}` as never,
  loadId,
})

/** What a producer rank takes the consumer's rank of a pair for. */
export const shareOf = ({ ranks }: ClusterState, pair: number): Share => ({
  rank: consumerRankOf(ranks, pair),
  count: ranks.consumer,
})

function ask(
  state: ClusterState,
  name: ConsumerName,
  request: ConsumedRequest,
  pair: number,
): void {
  const { job, producer } = request
  const connection = state.consumers[name]!.connections[keyOf(request, pair)]
  if (connection === undefined || !connection.isOpen) {
    state.messages.push({ kind: 'silence', consumer: name, job, pair })
    return
  }
  state.messages.push({
    kind: 'question',
    consumer: name,
    job,
    pair,
    producer,
    producerLife: connection.life,
    reader: readerOf(state, name, request),
    share: shareOf(state, pair),
    sentAt: state.now,
  })
}

export function tellRelease(
  state: ClusterState,
  name: ConsumerName,
  request: ConsumedRequest,
  pair: number,
): void {
  const { job, producer, producerLife } = request
  const reader = readerOf(state, name, request)
  const event = { kind: 'release', reader, share: shareOf(state, pair) } as const
  state.messages.push({ kind: 'news', event, job, pair, producer, producerLife })
}

/** The end of a turn: what became ready in it is posted, unless an abort came in the same turn. */
export function flush(state: ClusterState, rules: Rules, name: ConsumerName): void {
  for (const { job, reads } of Object.values(state.consumers[name]!.requests)) {
    for (const [pair, read] of reads.entries()) {
      if (read?.kind === 'posting') postRead(state, rules, name, job, pair)
    }
  }
}

function postRead(
  state: ClusterState,
  rules: Rules,
  name: ConsumerName,
  job: string,
  pair: number,
): void {
  const request = state.consumers[name]!.requests[job]!
  const connection = state.consumers[name]!.connections[keyOf(request, pair)]!
  readEvent(state, rules, name, job, pair, { kind: 'handoff-accept' })
  state.transfers.push({
    consumer: name,
    job,
    pair,
    producer: request.producer,
    producerLife: connection.life,
    copied: 0,
    remains: null,
    isOverdue: false,
    postedAt: state.now,
  })
  readEvent(state, rules, name, job, pair, { kind: 'post-end', transfer: noTransfer })
}

/** A READ's final status is known to the worker half. */
export function completeRead(
  state: ClusterState,
  rules: Rules,
  name: ConsumerName,
  job: string,
  pair: number,
  isDone: boolean,
): void {
  const request = state.consumers[name]!.requests[job]
  const event: ReadEvent = isDone
    ? { kind: 'transfer-done', times: noTimes }
    : { kind: 'transfer-fail', times: noTimes, error: errorOf('ERR_KV_TRANSFER_FAILED') }
  readEvent(state, rules, name, job, pair, event)
  if (request !== undefined) leaveWhenIdle(state, rules, name, keyOf(request, pair), isDone)
}
