/**
 * The consumer's connection to one rank of one life of a producer, as a pure machine: associate over the side
 * channel, exchange facts, add the peer to the agent; then carry loads until the association ends, and
 * forget the peer only when no READ from it is open. Loads that wait share one handshake; its failure
 * fails those that wait, and the next load tries again. Called by peer-connections.ts.
 */
import {
  ConnectorError,
  assertNever,
  type AnyConnectorError,
  type Association,
  type BlockTableHandle,
  type EngineId,
  type Incarnation,
  type PeerHandle,
} from '@kvferry/connector-api'
import {
  compareFacts,
  type FactMismatch,
  type PeerFacts,
  closed,
  peerUnavailable,
  type PeerClock,
  checked,
  refuse,
  type Step,
} from '@kvferry/connector-api/protocol'
import { connectionTransitions } from './connection-transitions.ts'
import { pullIdentity } from './identity.ts'
import type { HandshakeGrant, HandshakeReply } from './messages.ts'

/** What a load needs to read from the peer. */
export interface PeerLink {
  /** Of the producer. */
  readonly rank: number
  readonly association: Association
  readonly peer: PeerHandle
  readonly table: BlockTableHandle
  readonly blockCount: number
  readonly token: Uint8Array
  /** Checks the signatures of the peer's handoffs. */
  readonly handoffKey: Uint8Array
  readonly leaseDurationMs: number
  readonly clock: PeerClock
  /** Blocks may be read only after their lease was granted. */
  readonly isStaged: boolean
  /** How the peer lays its blocks out. */
  readonly facts: PeerFacts
}

export type ConnectionState =
  | { readonly kind: 'associating' }
  | { readonly kind: 'exchanging'; readonly association: Association }
  | { readonly kind: 'adding'; readonly association: Association }
  /** Gave up while the agent was adding the peer: what it adds is removed again. */
  | { readonly kind: 'abandoning' }
  /** Handshake complete, no READ has succeeded yet: the producer still polls for us. */
  | { readonly kind: 'ready'; readonly link: PeerLink }
  | { readonly kind: 'wired'; readonly link: PeerLink }
  /** The association ended while READs are open. */
  | { readonly kind: 'draining'; readonly peer: PeerHandle }
  | { readonly kind: 'removing' }
  | { readonly kind: 'ended' }

export type ConnectionEvent =
  | { readonly kind: 'associate-end'; readonly association: Association }
  /** `clock`: learned from the very exchange. */
  | {
      readonly kind: 'exchange-end'
      readonly reply: HandshakeReply
      readonly clock: PeerClock | null
    }
  | { readonly kind: 'add-end'; readonly link: PeerLink }
  /** One of the three steps above failed. */
  | { readonly kind: 'handshake-fail'; readonly error: AnyConnectorError }
  | { readonly kind: 'deadline' }
  | { readonly kind: 'association-end' }
  /** A READ from this peer ended done. */
  | { readonly kind: 'read-end' }
  /** No READ from this peer is open. */
  | { readonly kind: 'idle' }
  | { readonly kind: 'remove-end' }
  | { readonly kind: 'close' }

export type ConnectionEffect =
  | { readonly kind: 'exchange'; readonly association: Association }
  | {
      readonly kind: 'add'
      readonly association: Association
      readonly facts: PeerFacts
      readonly grant: HandshakeGrant
      readonly clock: PeerClock
    }
  /** Loads that wait may start. */
  | { readonly kind: 'announce-ready'; readonly link: PeerLink }
  | { readonly kind: 'fail-waiting'; readonly error: AnyConnectorError }
  | { readonly kind: 'tell-wired'; readonly association: Association }
  | { readonly kind: 'remove'; readonly peer: PeerHandle }

export interface ConnectionContext {
  readonly engineId: EngineId
  readonly incarnation: Incarnation
  readonly facts: PeerFacts
  readonly handshakeTimeoutMs: number
}

type ConnectionStep = Step<ConnectionState, ConnectionEffect>
type Handshaking = Extract<ConnectionState, { kind: 'associating' | 'exchanging' | 'adding' }>
type Connected = Extract<ConnectionState, { kind: 'ready' | 'wired' }>

const machine = 'connection'
const ended: ConnectionState = { kind: 'ended' }

const stay = (state: ConnectionState): ConnectionStep => ({ state, effects: [] })

function step(
  state: ConnectionState,
  event: ConnectionEvent,
  _now: unknown,
  context: ConnectionContext,
): ConnectionStep {
  switch (state.kind) {
    case 'associating':
    case 'exchanging':
    case 'adding':
      return stepHandshaking(state, event, context)
    case 'abandoning':
      if (event.kind === 'add-end') return remove(event.link.peer)
      return event.kind === 'handshake-fail' ? stay(ended) : stay(state)
    case 'ready':
    case 'wired':
      return stepConnected(state, event)
    case 'draining':
      return event.kind === 'idle' || event.kind === 'close' ? remove(state.peer) : stay(state)
    case 'removing':
      return event.kind === 'remove-end' ? stay(ended) : stay(state)
    case 'ended':
      // The side channel's answers to a handshake that was given up.
      return stay(state)
    default:
      return assertNever(state)
  }
}

const remove = (peer: PeerHandle): ConnectionStep => ({
  state: { kind: 'removing' },
  effects: [{ kind: 'remove', peer }],
})

function stepHandshaking(
  state: Handshaking,
  event: ConnectionEvent,
  context: ConnectionContext,
): ConnectionStep {
  switch (event.kind) {
    case 'associate-end':
      return associated(event.association, context)
    case 'exchange-end':
      return exchanged(state, event, context)
    case 'add-end':
      return {
        state: { kind: 'ready', link: event.link },
        effects: [{ kind: 'announce-ready', link: event.link }],
      }
    case 'handshake-fail':
      return { state: ended, effects: [{ kind: 'fail-waiting', error: event.error }] }
    case 'deadline':
      return giveUp(state, timedOut(context))
    case 'association-end':
      return giveUp(state, peerUnavailable(context.engineId))
    case 'close':
      return giveUp(state, closed('connector'))
    case 'read-end':
    case 'idle':
    case 'remove-end':
      return refuse(machine, state, event)
    default:
      return assertNever(event)
  }
}

function giveUp(state: Handshaking, error: AnyConnectorError): ConnectionStep {
  return {
    state: state.kind === 'adding' ? { kind: 'abandoning' } : ended,
    effects: [{ kind: 'fail-waiting', error }],
  }
}

/** Another life of the engine holds none of the blocks that the handoff names. */
function associated(association: Association, context: ConnectionContext): ConnectionStep {
  const { engineId, incarnation: expected } = context
  const actual = association.peer.incarnation
  if (actual !== expected) {
    const error = new ConnectorError(
      'ERR_KV_WRONG_EPOCH',
      `${engineId} is now incarnation ${actual}, the handoff is of ${expected}`,
      { engineId, expected, actual },
    )
    return { state: ended, effects: [{ kind: 'fail-waiting', error }] }
  }
  return {
    state: { kind: 'exchanging', association },
    effects: [{ kind: 'exchange', association }],
  }
}

function exchanged(
  state: Handshaking,
  event: Extract<ConnectionEvent, { kind: 'exchange-end' }>,
  context: ConnectionContext,
): ConnectionStep {
  if (state.kind !== 'exchanging') return refuse(machine, state, event)
  const { association } = state
  const { reply, clock } = event
  const { grant } = reply
  if (grant !== null && clock !== null && compareWithPeer(context.facts, reply.facts) === null) {
    return {
      state: { kind: 'adding', association },
      effects: [{ kind: 'add', association, facts: reply.facts, grant, clock }],
    }
  }
  return {
    state: ended,
    effects: [{ kind: 'fail-waiting', error: incompatible(reply.facts, context) }],
  }
}

const compareWithPeer = (local: PeerFacts, remote: PeerFacts): FactMismatch | null =>
  compareFacts(local, remote, pullIdentity.capabilities)

function incompatible(
  remote: PeerFacts,
  { facts, engineId }: ConnectionContext,
): AnyConnectorError {
  const mismatch = compareWithPeer(facts, remote) ?? {
    field: 'verdict',
    local: 'accepted',
    remote: 'refused',
  }
  return new ConnectorError(
    'ERR_KV_PEER_INCOMPATIBLE',
    `${mismatch.field} is ${mismatch.local} here and ${mismatch.remote} on ${engineId}`,
    { peer: engineId, ...mismatch },
  )
}

function stepConnected(state: Connected, event: ConnectionEvent): ConnectionStep {
  const { link } = state
  switch (event.kind) {
    case 'read-end':
      if (state.kind === 'wired') return stay(state)
      return {
        state: { kind: 'wired', link },
        effects: [{ kind: 'tell-wired', association: link.association }],
      }
    case 'idle':
      return stay(state)
    case 'association-end':
      return stay({ kind: 'draining', peer: link.peer })
    case 'close':
      return remove(link.peer)
    case 'associate-end':
    case 'exchange-end':
    case 'add-end':
    case 'handshake-fail':
    case 'deadline':
    case 'remove-end':
      return refuse(machine, state, event)
    default:
      return assertNever(event)
  }
}

const timedOut = ({ engineId, handshakeTimeoutMs }: ConnectionContext): AnyConnectorError =>
  new ConnectorError('ERR_KV_DEADLINE', `handshake with ${engineId} took too long`, {
    what: `handshake with ${engineId}`,
    deadlineMs: handshakeTimeoutMs,
  })

/** Pure. @throws InvariantError for an event that the state can't receive. */
export const stepConnection = checked(machine, connectionTransitions, step)

export const isHandshaking = ({ kind }: ConnectionState): boolean =>
  kind === 'associating' || kind === 'exchanging' || kind === 'adding'

/** The association that it has now; null before it has one, and once it lost it. */
export function associationOf(state: ConnectionState): Association | null {
  if ('association' in state) return state.association
  return 'link' in state ? state.link.association : null
}
