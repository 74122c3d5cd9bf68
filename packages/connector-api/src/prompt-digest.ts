/**
 * Which prompt a request has, in 32 bytes: what `RequestView.promptDigest` holds. One definition for every
 * engine, in whatever language, so that a producer and a consumer that were given the same token ids agree.
 * Pure.
 */
import { hash } from 'node:crypto'

/** SHA-256 over the token ids, each a little-endian u32. */
export function digestTokens(tokens: ArrayLike<number>): Uint8Array {
  // Memory is little-endian on every platform that we run on.
  const ids = new Uint32Array(tokens)
  // In one call: a hash object is a stream, which costs thrice as much and, the first time, its modules.
  return new Uint8Array(hash('sha256', ids, 'buffer'))
}
