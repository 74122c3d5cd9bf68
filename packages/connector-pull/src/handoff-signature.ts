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
import { WIRE_VERSION } from '@kvferry/connector-api'
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
  const bytes = handoffBytes(claims)
  return Uint8Array.from(keys.flatMap((key) => [...hmac(bytes, key)]))
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

/** Node loads what an HMAC needs with the first one, which takes longer than a step: done before any. */
export function prepareSigning(): void {
  hmac(new Uint8Array(1), new Uint8Array(pullLimits.signatureSizeBytes))
}

const hmac = (bytes: Uint8Array, key: Uint8Array): Uint8Array =>
  createHmac('sha256', key).update(bytes).digest()
