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
import { createHmac, timingSafeEqual } from 'node:crypto'
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
export function handoffBytes({
  remote,
  blockIds,
  tokenCount,
  blockTokens,
  tpSize,
  leaseDeadlineMs,
  promptDigest,
}: HandoffClaims): Uint8Array {
  return new ByteWriter(protocolLimits.metadataSizeBytesMax)
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
    .finish()
}

/** One signature per key, one after the other: whoever reads from rank `r` checks the `r`-th. */
export function signHandoff(claims: HandoffClaims, keys: readonly Uint8Array[]): Uint8Array {
  const size = pullLimits.signatureSizeBytes
  const bytes = handoffBytes(claims)
  const signature = new Uint8Array(keys.length * size)
  keys.forEach((key, rank) => signature.set(hmac(bytes, key), rank * size))
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
  return given.length === size && timingSafeEqual(given, hmac(handoffBytes(claims), key))
}

/**
 * Node loads what an HMAC needs with the first one, which takes longer than a step, and interprets what has run
 * only a few times: done before any request, some milliseconds in all. Once for all halves of a process.
 */
export function prepareSigning(): void {
  if (isPrepared) return
  isPrepared = true
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
let isPrepared = false

const hmac = (bytes: Uint8Array, key: Uint8Array): Buffer =>
  createHmac('sha256', key).update(bytes).digest()
