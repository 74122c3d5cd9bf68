/**
 * The signature of a handoff. Between producer and consumer it crosses routers and clients, so the
 * producer signs what decides which bytes are read (HMAC-SHA256), with a key that each of its ranks makes
 * per incarnation and that consumers get in that rank's handshake. Pure.
 *
 * Signed bytes, little-endian; a string is its UTF-8 size as u16 and its bytes:
 *   string "kvferry.handoff" · u8 wire version · string engine id · string incarnation · string request id
 *   · u32 tokens · u32 tokens per block · u16 TP size · u8 groups (1) · u32 blocks · u32 each block id
 *   · f64 lease deadline (ms of the producer's clock) · the 32 bytes of the prompt's digest
 * test/golden/handoff.json holds examples for implementations in other languages.
 */
import { hash, timingSafeEqual } from 'node:crypto'
import {
  WIRE_VERSION,
  asEngineId,
  asIncarnation,
  asRequestId,
  limits,
} from '@kvferry/connector-api'
import { ByteWriter, protocolLimits } from '@kvferry/connector-api/protocol'
import { pullLimits } from './limits.ts'
import type { HandoffClaims } from './metadata.ts'

/** What the signature covers, as bytes. */
export const handoffBytes = (claims: HandoffClaims): Uint8Array =>
  writeClaims(new ByteWriter(protocolLimits.metadataSizeBytesMax), claims).finish()

/** One signature per key, one after the other: whoever reads from rank `r` checks the `r`-th. */
export function signHandoff(claims: HandoffClaims, keys: readonly Uint8Array[]): Uint8Array {
  const size = pullLimits.signatureSizeBytes
  const signature = new Uint8Array(keys.length * size)
  keys.forEach((key, rank) => signature.set(signed(claims, key), rank * size))
  return signature
}

/** `tpRank`: of the producer. Takes the same time whatever the signature. */
export function isHandoffSigned(
  { signature, ...claims }: HandoffClaims & { readonly signature: Uint8Array },
  key: Uint8Array,
  tpRank: number,
): boolean {
  const size = pullLimits.signatureSizeBytes
  const given = signature.subarray(tpRank * size, (tpRank + 1) * size)
  return given.length === size && timingSafeEqual(given, signed(claims, key))
}

/**
 * Node loads what a hash needs with the first one, which takes longer than a step, and interprets what has run
 * only a few times: done before any request, some milliseconds in all.
 */
export function prepareSigning(): void {
  const ids = { engineId: asEngineId('e'), incarnation: asIncarnation('i') }
  const claims: HandoffClaims = {
    remote: { ...ids, host: 'h', port: 1, requestId: asRequestId('r') },
    blockIds: new Uint32Array(1),
    ...{ tokenCount: 1, blockTokens: 1, tpSize: 1, leaseDeadlineMs: 1 },
    promptDigest: new Uint8Array(limits.promptDigestSizeBytes),
  }
  const key = new Uint8Array(pullLimits.handoffKeySizeBytes)
  for (let round = 0; round < warmUpRounds; round++) {
    isHandoffSigned({ ...claims, signature: signHandoff(claims, [key]) }, key, 0)
  }
}

const warmUpRounds = 64

function writeClaims(
  writer: ByteWriter,
  {
    remote,
    blockIds,
    tokenCount,
    blockTokens,
    tpSize,
    leaseDeadlineMs,
    promptDigest,
  }: HandoffClaims,
): ByteWriter {
  return writer
    .string('kvferry.handoff')
    .u8(WIRE_VERSION)
    .string(remote.engineId)
    .string(remote.incarnation)
    .string(remote.requestId)
    .u32(tokenCount)
    .u32(blockTokens)
    .u16(tpSize)
    .u8(1)
    .u32List(blockIds)
    .f64(leaseDeadlineMs)
    .fixed(promptDigest)
}

/**
 * HMAC-SHA256 as RFC 2104 defines it, from two hashes in one call each: an `Hmac` of Node is a stream, and
 * making one costs more than both, on the step that a reader waits for.
 */
function signed(claims: HandoffClaims, key: Uint8Array): Buffer {
  const { inner, outer } = padsOf(key)
  const writer = new ByteWriter(hashBlockSizeBytes + protocolLimits.metadataSizeBytesMax)
  const message = writeClaims(writer.fixed(inner), claims).finish()
  outer.set(hash('sha256', message, 'buffer'), hashBlockSizeBytes)
  return hash('sha256', outer, 'buffer')
}

/** What SHA-256 takes in at once. */
const hashBlockSizeBytes = 64

interface Pads {
  readonly inner: Uint8Array
  /** With room for the inner hash behind it. */
  readonly outer: Uint8Array
}

/** By key: an engine has a few, and signs with them for all of its life. */
const knownPads = new WeakMap<Uint8Array, Pads>()

function padsOf(key: Uint8Array): Pads {
  const known = knownPads.get(key)
  if (known !== undefined) return known
  const block = new Uint8Array(hashBlockSizeBytes)
  block.set(key)
  const outer = new Uint8Array(hashBlockSizeBytes + pullLimits.signatureSizeBytes)
  outer.set(block.map((byte) => byte ^ 0x5c))
  const pads = { inner: block.map((byte) => byte ^ 0x36), outer }
  knownPads.set(key, pads)
  return pads
}
