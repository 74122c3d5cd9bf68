import {
  ConnectorError,
  asEngineId,
  asIncarnation,
  type AnyConnectorError,
  type Association,
  type BlockTableHandle,
  type Instant,
  type PeerHandle,
} from '@kvferry/connector-api'
import { testMachine } from '@kvferry/connector-api/conformance'
import { type PeerFacts, PeerClock } from '@kvferry/connector-api/protocol'
import { expect, test } from 'vitest'
import {
  stepConnection,
  type ConnectionEvent,
  type ConnectionState,
  type PeerLink,
} from '../src/connection-state.ts'
import { connectionTransitions } from '../src/connection-transitions.ts'

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
  regions: [{ name: 'layer-0', blockSizeBytes: 64, blockStrideBytes: 64 }],
}
const engineId = asEngineId('p0')
const context = { engineId, incarnation: asIncarnation('p0-1'), facts, handshakeTimeoutMs: 500 }
const associationOf = (incarnation: string): Association => ({
  peer: { engineId, incarnation: asIncarnation(incarnation) },
  isOpen: true,
  request: () => Promise.reject(new Error('not in this test')),
  send() {},
  flush() {},
  close() {},
})
const association = associationOf('p0-1')
const peer = 1 as PeerHandle
const keys = {
  token: new Uint8Array(16),
  handoffKey: new Uint8Array(32),
  leaseDurationMs: 500,
  isStaged: false,
}
const zero = 0 as Instant
const clock = new PeerClock({ sentAt: zero, receivedAt: zero, remoteMs: 0 })
const link: PeerLink = {
  rank: 0,
  association,
  peer,
  table: 2 as BlockTableHandle,
  blockCount: 64,
  clock,
  facts,
  ...keys,
}
const grant = {
  agentName: 'p0',
  agentMetadata: new Uint8Array(),
  blockTable: new Uint8Array(),
  clockMs: 0,
  ...keys,
}
const error = new ConnectorError('ERR_KV_CLOSED', 'x', { what: 'x' }) as AnyConnectorError

const states: Record<string, ConnectionState> = {
  associating: { kind: 'associating' },
  exchanging: { kind: 'exchanging', association },
  adding: { kind: 'adding', association },
  abandoning: { kind: 'abandoning' },
  ready: { kind: 'ready', link },
  wired: { kind: 'wired', link },
  draining: { kind: 'draining', peer },
  removing: { kind: 'removing' },
  ended: { kind: 'ended' },
}
const events: Record<string, ConnectionEvent> = {
  associated: { kind: 'associate-end', association },
  'associated with another life': { kind: 'associate-end', association: associationOf('p0-2') },
  agreed: { kind: 'exchange-end', reply: { facts, grant }, clock },
  'facts differ': {
    kind: 'exchange-end',
    reply: { facts: { ...facts, model: 'other' }, grant },
    clock,
  },
  'refused by the peer': { kind: 'exchange-end', reply: { facts, grant: null }, clock: null },
  added: { kind: 'add-end', link },
  fail: { kind: 'handshake-fail', error },
  deadline: { kind: 'deadline' },
  'association-end': { kind: 'association-end' },
  'read-end': { kind: 'read-end' },
  idle: { kind: 'idle' },
  'remove-end': { kind: 'remove-end' },
  close: { kind: 'close' },
}

const connected = {
  idle: true,
  'association-end': 'draining:',
  close: 'removing: remove',
} as const

testMachine('connection', {
  step: (state, event, at) => stepConnection(state, event, at, context),
  now: 0 as Instant,
  table: connectionTransitions as never,
  states,
  events,
  show: (effect) => (effect.kind === 'fail-waiting' ? effect.error.code : effect.kind),
  expected: {
    associating: {
      associated: 'exchanging: exchange',
      'associated with another life': 'ended: ERR_KV_WRONG_EPOCH',
      fail: 'ended: ERR_KV_CLOSED',
      deadline: 'ended: ERR_KV_DEADLINE',
      close: 'ended: ERR_KV_CLOSED',
    },
    exchanging: {
      agreed: 'adding: add',
      'facts differ': 'ended: ERR_KV_PEER_INCOMPATIBLE',
      'refused by the peer': 'ended: ERR_KV_PEER_INCOMPATIBLE',
      fail: 'ended: ERR_KV_CLOSED',
      deadline: 'ended: ERR_KV_DEADLINE',
      'association-end': 'ended: ERR_KV_PEER_UNAVAILABLE',
      close: 'ended: ERR_KV_CLOSED',
    },
    adding: {
      added: 'ready: announce-ready',
      fail: 'ended: ERR_KV_CLOSED',
      deadline: 'abandoning: ERR_KV_DEADLINE',
      'association-end': 'abandoning: ERR_KV_PEER_UNAVAILABLE',
      close: 'abandoning: ERR_KV_CLOSED',
    },
    // Nobody waits any more; what the agent adds must go again.
    abandoning: { added: 'removing: remove', fail: 'ended:', close: 'abandoning:' },
    ready: { ...connected, idle: 'ready:', 'read-end': 'wired: tell-wired' },
    wired: { ...connected, idle: 'wired:', 'read-end': 'wired:' },
    draining: { 'read-end': 'draining:', idle: 'removing: remove', close: 'removing: remove' },
    removing: {
      'remove-end': 'ended:',
      'read-end': 'removing:',
      idle: 'removing:',
      close: 'removing:',
    },
    ended: {
      associated: 'ended:',
      'associated with another life': 'ended:',
      agreed: 'ended:',
      'facts differ': 'ended:',
      'refused by the peer': 'ended:',
      fail: 'ended:',
      close: 'ended:',
    },
  },
})

const different: Record<string, Partial<PeerFacts>> = {
  connector: { connector: 'push' },
  transferMode: { transferMode: 'push' },
  model: { model: 'other' },
  dtype: { dtype: 'float8' },
  layout: { layout: 'BLHNC' },
  layerCount: { layerCount: 9 },
  kvHeadCount: { kvHeadCount: 9 },
  headSize: { headSize: 9 },
  blockTokens: { blockTokens: 6 },
  ppSize: { ppSize: 9 },
  regionCount: { regions: [] },
  'regions[0].name': { regions: [{ name: 'other', blockSizeBytes: 64, blockStrideBytes: 64 }] },
  'regions[0].blockSizeBytes': {
    regions: [{ name: 'layer-0', blockSizeBytes: 9, blockStrideBytes: 64 }],
  },
}

test.each([1, 2, 8, 12])('a peer with blocks of %i tokens is accepted', (blockTokens) => {
  const regions = [{ name: 'layer-0', blockSizeBytes: 16 * blockTokens, blockStrideBytes: 999 }]
  const reply = { facts: { ...facts, blockTokens, regions }, grant }
  const event: ConnectionEvent = { kind: 'exchange-end', reply, clock }
  const { effects } = stepConnection(states['exchanging']!, event, 0 as Instant, context)
  expect(effects.map(({ kind }) => kind)).toEqual(['add'])
})

test.each(Object.entries(different))(
  'a peer with another %s is refused by name (17, 18)',
  (field, change) => {
    const reply = { facts: { ...facts, ...change }, grant }
    const { effects } = stepConnection(
      states['exchanging']!,
      { kind: 'exchange-end', reply, clock },
      0 as Instant,
      context,
    )
    const [effect] = effects
    expect(effect?.kind).toBe('fail-waiting')
    const failure = (effect as { error: ConnectorError<'ERR_KV_PEER_INCOMPATIBLE'> }).error
    expect(failure.details.field).toBe(field)
    expect(failure.details.local).not.toBe(failure.details.remote)
    expect(failure.message).toContain(failure.details.local)
    expect(failure.message).toContain(failure.details.remote)
  },
)

test('TP sizes that can’t be mapped are refused by name, others of the same heads accepted', () => {
  const connect = (own: number, theirs: number) => {
    const of = (tpSize: number) => ({ ...facts, tpSize, kvHeadCount: 6 / tpSize })
    const regions = [{ name: 'layer-0', blockSizeBytes: (64 * own) / theirs, blockStrideBytes: 64 }]
    const reply = { facts: { ...of(theirs), regions }, grant }
    const event: ConnectionEvent = { kind: 'exchange-end', reply, clock }
    const { effects } = stepConnection(states['exchanging']!, event, 0 as Instant, {
      ...context,
      facts: of(own),
    })
    return effects[0]
  }
  for (const [own, theirs] of [
    [1, 2],
    [2, 1],
    [6, 2],
  ]) {
    expect(connect(own!, theirs!)?.kind).toBe('add')
  }
  const details = { field: 'tpSize', local: '2', remote: '3', peer: 'p0' }
  expect(connect(2, 3)).toMatchObject({ kind: 'fail-waiting', error: { details } })
})
