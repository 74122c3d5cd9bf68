/**
 * Which prompt a request has, in 32 bytes: what `RequestView.promptDigest` holds. One definition for every
 * engine, in whatever language, so that a producer and a consumer that were given the same token ids agree.
 * Pure.
 */
import { hash } from 'node:crypto'

/** SHA-256 over the token ids, each a little-endian u32. */
export function digestTokens(tokens: ArrayLike<number>): Uint8Array {
  const bytes = new DataView(new ArrayBuffer(4 * tokens.length))
  for (let index = 0; index < tokens.length; index++)
    bytes.setUint32(4 * index, tokens[index]!, true)
  // In one call: a hash object is a stream, which costs thrice as much and, the first time, its modules.
  return Uint8Array.from(hash('sha256', bytes, 'buffer'))
}
