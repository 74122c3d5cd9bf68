/** A consumer's connections in the model: associate, exchange, add the peer, and let it go again. */
import type { Association } from '@kvferry/connector-api'
import type { PeerFacts } from '@kvferry/connector-api/protocol'
import type { ConnectionEffect, ConnectionEvent, PeerLink } from '../../src/connection-state.ts'
import { flush, readEvent } from './loads.ts'
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

export const keyOf = ({ producer, producerLife }: ConsumedRequest, pair: number): string =>
  connectionKey(producer, producerLife, pair)

const incarnationOf = (producer: string, life: number) => `${producer}/${life}` as never
/** The life that the handoff names. */
const incarnationOfKey = (key: string) => key.split('/').slice(0, 2).join('/') as never

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
      const seen = rules.knowsLives ? incarnationOf(producer, life) : incarnationOfKey(key)
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
  const isOpen = readsOver(state, name, key).some(({ read }) => readingKinds.includes(read.kind))
  if (!isOpen) dispatch(state, rules, name, key, { kind: 'idle' })
}

const readingKinds: readonly string[] = ['reading', 'overdue', 'draining', 'draining-overdue']

/** What is read, or is to be, over that connection. */
const readsOver = (state: ClusterState, name: ConsumerName, key: string) =>
  Object.values(state.consumers[name]!.requests).flatMap((request) =>
    [...request.reads.entries()].flatMap(([pair, read]) =>
      read !== null && keyOf(request, pair) === key ? [{ request, pair, read }] : [],
    ),
  )

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
    incarnation: incarnationOfKey(key),
    facts,
    handshakeTimeoutMs: 1_000,
  }
  const next = rules.connection(record.state, event, state.now, context)
  record.state = next.state
  if (next.state.kind === 'ended') delete connections[key]
  for (const effect of next.effects) perform(state, rules, name, key, record, effect)
  if (next.state.kind !== 'ended') return
  // Loads that wait start a new handshake.
  for (const { request } of waiting(state, name, key)) connect(state, name, key, request)
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
      for (const { request, pair } of waiting(state, name, key)) {
        readEvent(state, rules, name, request.job, pair, { kind: rules.readyEvent })
      }
      return
    case 'fail-waiting':
      for (const { request, pair } of waiting(state, name, key)) {
        const event = { kind: 'peer-fail', error: effect.error } as const
        readEvent(state, rules, name, request.job, pair, event)
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

const waiting = (state: ClusterState, name: ConsumerName, key: string) =>
  readsOver(state, name, key).filter(({ read }) => read.kind === 'connecting')
