/** Packed keys as 32-bit words, the form in which the tables compare them. Pure. */
import { blockKeySizeBytes, type BlockKeys } from '@kvferry/connector-api'

/** Words of one key. */
export const keyWordCount = blockKeySizeBytes / 4

/** Word `keyWordCount * i` is the first of key `i`. */
export type KeyWords = Uint32Array

/**
 * A view where the bytes are aligned, a copy where they aren't (slices of messages).
 * @throws RangeError for a length that is no whole number of keys.
 */
export function keyWords(keys: BlockKeys): KeyWords {
  if (keys.length % blockKeySizeBytes !== 0) {
    throw new RangeError(
      `${keys.length} bytes are no whole number of ${blockKeySizeBytes}-byte keys`,
    )
  }
  const aligned = keys.byteOffset % 4 === 0 ? keys : Uint8Array.from(keys)
  return new Uint32Array(aligned.buffer, aligned.byteOffset, aligned.length / 4)
}
