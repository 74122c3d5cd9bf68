/**
 * Who is let in: the hello message and its judgement, and whom this engine may call. Pure. Called before an
 * association exists, by both sides; everything here is said by a peer that isn't trusted yet.
 *
 * With certificates the name comes from them, and the hello only repeats it. Without them a name is a claim:
 * the peers list guards against mistakes, and the loopback rule against strangers (architecture §8).
 */
import { encode } from '@msgpack/msgpack'
import {
  asEngineId,
  asIncarnation,
  ConnectorError,
  limits,
  WIRE_VERSION,
  type AnyConnectorError,
  type EngineId,
  type PeerAddress,
  type PeerConfig,
  type PeerIdentity,
} from '@kvferry/connector-api'
import { isLoopbackHost } from '../loopback.ts'
import { decodeBody } from './decode-body.ts'
import { sideChannelLimits } from './limits.ts'
import { incompatible, unauthorised } from './peer-errors.ts'

export interface AdmissionPolicy {
  readonly identity: PeerIdentity
  /** Whom to talk to, by name and place; null = anyone that the next field allows. */
  readonly peers: readonly PeerConfig[] | null
  readonly isLoopbackOnly: boolean
}

/** What is known of the other side apart from its own words. */
export interface HelloContext {
  readonly remoteHost: string
  /** The engine that was called, or null when it called us. */
  readonly expectedEngineId: EngineId | null
  /** Whom its certificate names, or null without certificates. The hello must say the same. */
  readonly certifiedEngineId: EngineId | null
}

export const encodeHello = ({ engineId, incarnation }: PeerIdentity): Uint8Array =>
  encode({ wireVersion: WIRE_VERSION, engineId, incarnation })

function invalidHello(reason: string): AnyConnectorError {
  const where = 'side-channel-hello'
  return new ConnectorError('ERR_KV_MESSAGE_INVALID', `malformed hello: ${reason}`, {
    where,
    reason,
  })
}

const controlCharacter = /[\u0000-\u001f\u007f]/

/** Ids that fit the contract's bound and can stand in a log line. */
const isId = (value: unknown): value is string =>
  typeof value === 'string' &&
  value !== '' &&
  Buffer.byteLength(value) <= limits.idSizeBytesMax &&
  !controlCharacter.test(value)

/** @throws whatever the decoder throws for bytes that aren't a small msgpack map. */
function parseHello(body: Uint8Array): PeerIdentity | AnyConnectorError {
  const { wireVersion, engineId, incarnation } = decodeBody(
    body,
    sideChannelLimits.helloSizeBytesMax,
  )
  // First, because in another version the rest may well look different.
  if (typeof wireVersion !== 'number') return invalidHello('no wire version')
  if (wireVersion !== WIRE_VERSION) {
    const [local, remote] = [String(WIRE_VERSION), String(wireVersion)]
    const message = `wire version ${remote} is spoken there, ${local} here; install the same version on both sides`
    const peer = isId(engineId) ? engineId : 'unknown'
    return incompatible({ peer, field: 'wireVersion', local, remote }, message)
  }
  if (!isId(engineId)) return invalidHello('no valid engine id')
  if (!isId(incarnation)) return invalidHello('no valid incarnation')
  return { engineId: asEngineId(engineId), incarnation: asIncarnation(incarnation) }
}

function differentName(
  peer: string,
  local: string,
  remote: string,
  message: string,
): AnyConnectorError {
  return incompatible({ peer, field: 'engineId', local, remote }, message)
}

function refusePeer(
  { engineId }: PeerIdentity,
  policy: AdmissionPolicy,
  context: HelloContext,
): AnyConnectorError | null {
  const own = policy.identity.engineId
  const { certifiedEngineId, expectedEngineId, remoteHost } = context
  if (certifiedEngineId !== null && engineId !== certifiedEngineId) {
    const message = `engine "${own}" refuses a hello of engine "${engineId}" under the certificate of engine "${certifiedEngineId}"`
    return unauthorised(message)
  }
  if (expectedEngineId !== null && engineId !== expectedEngineId) {
    const message = `engine "${engineId}" answered where "${expectedEngineId}" was expected`
    return differentName(expectedEngineId, expectedEngineId, engineId, message)
  }
  if (engineId === own) {
    const message = `engine id "${engineId}" is on both sides: give each engine its own engineId`
    return differentName(engineId, own, engineId, message)
  }
  if (policy.isLoopbackOnly && !isLoopbackHost(remoteHost)) {
    return unauthorised(
      `engine "${engineId}" called from another machine, and engine "${own}" has no peers configured: list it under peers`,
    )
  }
  if (policy.peers?.every((peer) => peer.engineId !== engineId)) {
    return unauthorised(`engine "${engineId}" is not among the configured peers of engine "${own}"`)
  }
  return null
}

/** The peer's identity, or why it is refused. */
export function judgeHello(
  body: Uint8Array,
  policy: AdmissionPolicy,
  context: HelloContext,
): PeerIdentity | AnyConnectorError {
  let parsed: PeerIdentity | AnyConnectorError
  try {
    parsed = parseHello(body)
  } catch (cause) {
    return invalidHello(cause instanceof Error ? cause.message : 'not msgpack')
  }
  if (ConnectorError.isInstance(parsed)) return parsed
  return refusePeer(parsed, policy, context) ?? parsed
}

/** `localhost`, `127.0.0.1` and `::1` are one machine. */
export function isSamePlace(
  left: { readonly host: string; readonly port: number },
  right: { readonly host: string; readonly port: number },
): boolean {
  if (left.port !== right.port) return false
  return left.host === right.host || (isLoopbackHost(left.host) && isLoopbackHost(right.host))
}

/**
 * Why that address must not be called, or null. Addresses come out of handoffs that passed through a
 * router, so nothing is called that the configuration doesn't name.
 */
export function refuseAddress(
  address: PeerAddress,
  policy: AdmissionPolicy,
): AnyConnectorError | null {
  const { engineId, host, port } = address
  const own = policy.identity.engineId
  if (engineId === own) {
    return differentName(engineId, own, engineId, `engine "${own}" won't call itself`)
  }
  if (policy.isLoopbackOnly && !isLoopbackHost(host)) {
    return unauthorised(
      `engine "${engineId}" at ${host}:${port} is on another machine, and engine "${own}" has no peers configured: list it under peers`,
    )
  }
  if (policy.peers === null) return null
  const peer = policy.peers.find((candidate) => candidate.engineId === engineId)
  if (peer === undefined) {
    return unauthorised(`engine "${engineId}" is not among the configured peers of engine "${own}"`)
  }
  if (isSamePlace(peer, address)) return null
  return unauthorised(
    `engine "${engineId}" is configured at ${peer.host}:${peer.port}, not at ${host}:${port}`,
  )
}
