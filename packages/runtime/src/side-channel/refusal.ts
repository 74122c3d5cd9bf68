/**
 * A ConnectorError as the body of a `refusal` frame, and back. Pure. What arrives is checked against the
 * closed set of codes and the types of their details, so that a caller may rely on `switch (error.code)`
 * for an error from another process as for its own.
 */
import { encode } from '@msgpack/msgpack'
import {
  ConnectorError,
  type AnyConnectorError,
  type ConnectorErrorCode,
  type ConnectorErrorDetails,
} from '@kvferry/connector-api'
import { decodeBody } from './decode-body.ts'
import { encodeFrame } from './frame.ts'
import { sideChannelLimits } from './limits.ts'

type KindOf<T> = T extends number ? 'number' : T extends readonly string[] ? 'strings' : 'string'
type DetailKinds = {
  readonly [C in ConnectorErrorCode]: {
    readonly [K in keyof ConnectorErrorDetails[C]]: KindOf<ConnectorErrorDetails[C][K]>
  }
}

const detailKinds: DetailKinds = {
  ERR_KV_CLOSED: { what: 'string' },
  ERR_KV_BUSY: { what: 'string', transfers: 'number' },
  ERR_KV_PEER_UNAVAILABLE: { peer: 'string' },
  ERR_KV_PEER_INCOMPATIBLE: { peer: 'string', field: 'string', local: 'string', remote: 'string' },
  ERR_KV_WRONG_EPOCH: { engineId: 'string', expected: 'string', actual: 'string' },
  ERR_KV_UNAUTHORISED: { reason: 'string' },
  ERR_KV_HANDOFF_INVALID: { field: 'string', value: 'string' },
  ERR_KV_LEASE_EXPIRED: { requestId: 'string' },
  ERR_KV_TRANSFER_FAILED: { operation: 'string', peer: 'string', status: 'string' },
  ERR_KV_DEADLINE: { what: 'string', deadlineMs: 'number' },
  ERR_KV_UNSUPPORTED: { capability: 'string' },
  ERR_KV_LIMIT: { limit: 'string', value: 'number', max: 'number' },
  ERR_KV_QUARANTINE_FULL: { blocks: 'number', max: 'number' },
  ERR_KV_MESSAGE_INVALID: { where: 'string', reason: 'string' },
  ERR_KV_CONFIG: { field: 'string', value: 'string', remedy: 'string' },
  ERR_KV_CONNECTOR_NOT_INSTALLED: { connector: 'string', command: 'string' },
  ERR_NIXL_UNAVAILABLE: { searched: 'strings', remedy: 'string' },
  ERR_NIXL: { operation: 'string', status: 'string' },
  ERR_CUDA_UNAVAILABLE: { reason: 'string', remedy: 'string' },
  ERR_CUDA: { operation: 'string', status: 'string' },
}

const cut = (text: string): string => text.slice(0, sideChannelLimits.refusalMessageLengthMax)

/** Never fails: details that don't fit are replaced by a statement of that. */
export function encodeRefusal(error: AnyConnectorError): Uint8Array {
  const body = encode({ code: error.code, message: cut(error.message), details: error.details })
  if (body.length <= sideChannelLimits.refusalSizeBytesMax) return body
  const reason = cut(`${error.code}: ${error.message}`)
  return encode({
    code: 'ERR_KV_MESSAGE_INVALID',
    message: reason,
    details: { where: 'refusal with oversized details', reason },
  })
}

/** The frame that refuses a whole connection. */
export const farewell = (error: AnyConnectorError): Uint8Array =>
  encodeFrame('refusal', { body: encodeRefusal(error) })

function isKind(value: unknown, kind: 'number' | 'string' | 'strings'): boolean {
  if (kind !== 'strings') return typeof value === kind
  return Array.isArray(value) && value.every((item) => typeof item === 'string')
}

function parse(body: Uint8Array): AnyConnectorError | null {
  const { code, message, details } = decodeBody(body, sideChannelLimits.refusalSizeBytesMax)
  if (typeof code !== 'string' || !Object.hasOwn(detailKinds, code)) return null
  if (typeof message !== 'string' || typeof details !== 'object' || details === null) return null
  const known = code as ConnectorErrorCode
  const checked = Object.entries(detailKinds[known]).map(
    ([key, kind]) => [key, (details as Record<string, unknown>)[key], kind] as const,
  )
  if (checked.some(([, value, kind]) => !isKind(value, kind))) return null
  const own = Object.fromEntries(checked) as unknown as ConnectorErrorDetails[typeof known]
  return new ConnectorError(known, cut(message), own) as AnyConnectorError
}

/** The peer's error. Never throws: one that can't be read becomes ERR_KV_MESSAGE_INVALID. */
export function decodeRefusal(body: Uint8Array): AnyConnectorError {
  let cause: unknown
  try {
    const error = parse(body)
    if (error !== null) return error
  } catch (thrown) {
    cause = thrown
  }
  const reason = 'a refusal whose code or details are unknown here'
  return new ConnectorError(
    'ERR_KV_MESSAGE_INVALID',
    `the peer sent ${reason}`,
    { where: 'side-channel-refusal', reason },
    { cause },
  )
}
