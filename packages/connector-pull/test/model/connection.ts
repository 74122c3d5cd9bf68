/** A consumer's connections in the model: associate, exchange, add the peer, and let it go again. */
import type { Association } from '@kvferry/connector-api'
import type { PeerFacts } from '@kvferry/connector-api/protocol'
import type { ConnectionEffect, ConnectionEvent, PeerLink } from '../../src/connection-state.ts'
import { flush, loadEvent } from './consumer.ts'
import type { Rules } from './rules.ts'
import {
  connectionKey,
  type ClusterState,
  type ConnectionRecord,
  type ConsumedRequest,
  type ConsumerName,
  type ProducerName,
} from './state.ts'

/** Both sides agree: a difference is not what is explored here. */
const facts: PeerFacts = {
  connector: 'pull',
  transferMode: 'pull',
  model: 'toy',
  dtype: 'bfloat16',
  layout: 'LBHNC',
  layerCount: 1,
  kvHeadCount: 1,
  headSize: 4,
  blockTokens: 4,
  tpSize: 1,
  ppSize: 1,
  regions: [],
}

export const keyOf = ({ producer, producerLife }: ConsumedRequest): string =>
  connectionKey(producer, producerLife)

const incarnationOf = (producer: string, life: number) => `${producer}/${life}` as never

/** What a load finds when it wants to read: as `PeerConnections.linkTo` answers. */
export function connect(
  state: ClusterState,
  name: ConsumerName,
  key: string,
  { producerLife }: ConsumedRequest,
): 'ready' | 'waiting' | 'unavailable' {
  const { connections } = state.consumers[name]!
  const known = connections[key]
  if (known === undefined) {
    connections[key] = { state: { kind: 'associating' }, life: producerLife, isOpen: false }
    return 'waiting'
  }
  const { kind } = known.state
  if (kind === 'ready' || kind === 'wired') return 'ready'
  return kind === 'draining' || kind === 'abandoning' ? 'unavailable' : 'waiting'
}

/** The next step of a handshake that is under way. */
export function handshakeStep(
  state: ClusterState,
  rules: Rules,
  name: ConsumerName,
  key: string,
): void {
  const record = state.consumers[name]!.connections[key]
  if (record === undefined) return
  const [producer] = key.split('/') as [ProducerName]
  switch (record.state.kind) {
    case 'associating': {
      // Whoever lives there answers.
      const { life } = state.producers[producer]!
      record.life = life
      record.isOpen = true
      const seen = rules.knowsLives ? incarnationOf(producer, life) : (key as never)
      const association = {
        peer: { engineId: producer, incarnation: seen },
      } as unknown as Association
      dispatch(state, rules, name, key, { kind: 'associate-end', association })
      return
    }
    case 'exchanging':
      dispatch(state, rules, name, key, {
        kind: 'exchange-end',
        reply: { facts, grant: {} as never },
        clock: {} as never,
      })
      return
    case 'adding': {
      const link = { association: record.state.association } as PeerLink
      dispatch(state, rules, name, key, { kind: 'add-end', link })
      flush(state, rules, name)
      return
    }
    case 'abandoning':
      dispatch(state, rules, name, key, { kind: 'add-end', link: {} as PeerLink })
      return
    case 'ready':
    case 'wired':
    case 'draining':
    case 'removing':
    case 'ended':
      return
  }
}

/** The association's end is known. */
export function associationEnd(
  state: ClusterState,
  rules: Rules,
  name: ConsumerName,
  key: string,
): void {
  const record = state.consumers[name]!.connections[key]
  if (record === undefined) return
  dispatch(state, rules, name, key, { kind: 'association-end' })
  leaveWhenIdle(state, rules, name, key, false)
}

/** After a READ's end, and after an association's: a peer that nobody reads from is let go. */
export function leaveWhenIdle(
  state: ClusterState,
  rules: Rules,
  name: ConsumerName,
  key: string,
  isReadDone: boolean,
): void {
  const record = state.consumers[name]!.connections[key]
  if (record === undefined) return
  if (isReadDone) dispatch(state, rules, name, key, { kind: 'read-end' })
  if (record.state.kind !== 'draining') return
  const hasOpenReads = Object.values(state.consumers[name]!.requests).some(
    (request) => keyOf(request) === key && isReading(request),
  )
  if (!hasOpenReads) dispatch(state, rules, name, key, { kind: 'idle' })
}

const readingKinds: readonly string[] = ['reading', 'overdue', 'draining', 'draining-overdue']
const isReading = ({ load }: ConsumedRequest): boolean =>
  load !== null && readingKinds.includes(load.kind)

function dispatch(
  state: ClusterState,
  rules: Rules,
  name: ConsumerName,
  key: string,
  event: ConnectionEvent,
): void {
  const { connections } = state.consumers[name]!
  const record = connections[key]!
  const [producer] = key.split('/') as [ProducerName]
  const context = {
    engineId: producer as never,
    incarnation: key as never,
    facts,
    handshakeTimeoutMs: 1_000,
  }
  const next = rules.connection(record.state, event, state.now, context)
  record.state = next.state
  if (next.state.kind === 'ended') delete connections[key]
  for (const effect of next.effects) perform(state, rules, name, key, record, effect)
  if (next.state.kind !== 'ended') return
  // Loads that wait start a new handshake.
  for (const request of waiting(state, name, key)) connect(state, name, key, request)
}

function perform(
  state: ClusterState,
  rules: Rules,
  name: ConsumerName,
  key: string,
  record: ConnectionRecord,
  effect: ConnectionEffect,
): void {
  switch (effect.kind) {
    case 'announce-ready':
      for (const { job } of waiting(state, name, key)) {
        loadEvent(state, rules, name, job, { kind: rules.readyEvent })
      }
      return
    case 'fail-waiting':
      for (const { job } of waiting(state, name, key)) {
        loadEvent(state, rules, name, job, { kind: 'peer-fail', error: effect.error })
      }
      return
    case 'remove':
      record.isOpen = false
      dispatch(state, rules, name, key, { kind: 'remove-end' })
      return
    case 'exchange':
    case 'add':
    case 'tell-wired':
      return
  }
}

const waiting = (state: ClusterState, name: ConsumerName, key: string): ConsumedRequest[] =>
  Object.values(state.consumers[name]!.requests).filter(
    (request) => keyOf(request) === key && request.load?.kind === 'connecting',
  )
