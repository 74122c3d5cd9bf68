/** Bounds of the TCP side channel that aren't part of the contract, with their reasons. */
import { assert, limits } from '@kvferry/connector-api'

export const sideChannelLimits = {
  /** Accepted connections that haven't said hello. Strangers can fill these, not the associations. */
  handshakeCountMax: 64,
  /** Connections that were refused and are being told so; beyond it they are dropped without a word. */
  farewellCountMax: 64,
  /** From connection to hello. A stranger that stays silent holds a place no longer than this. */
  helloTimeoutMs: limits.sideChannelTimeoutMs,
  /** Bytes of a hello: two ids and a number. */
  helloSizeBytesMax: 1_024,
  /** Bytes of a refusal's body: code, message, details. */
  refusalSizeBytesMax: 16_384,
  /** Entries of a list, and keys of a map, in a hello or refusal. */
  bodyListLengthMax: 64,
  bodyKeyCountMax: 16,
  /** Characters of an error message that travel; longer ones are cut. */
  refusalMessageLengthMax: 1_024,
  /** Bytes waiting for a peer that reads slower than we write; beyond it the association ends. */
  writeBacklogBytesMax: 4 * limits.frameSizeBytesMax,
  /** ASCII characters of a message kind. */
  kindLengthMax: 64,
  /** From the last word on a connection to its forced end. */
  farewellTimeoutMs: 1_000,
  /** Idle time before TCP probes the peer (then every second, ten times, as libuv sets it). */
  keepAliveDelayMs: 10_000,
} as const

assert(
  sideChannelLimits.writeBacklogBytesMax >= 2 * limits.frameSizeBytesMax,
  'one large frame would end an association',
)
assert(
  sideChannelLimits.refusalMessageLengthMax * 4 < sideChannelLimits.refusalSizeBytesMax,
  'a refusal may not hold its message',
)
assert(
  sideChannelLimits.refusalSizeBytesMax < limits.frameSizeBytesMax,
  'a refusal may not fit a frame',
)
