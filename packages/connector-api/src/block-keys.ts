/**
 * Names for the content of KV blocks: a chain of SHA-256, one 32-byte key a block, each of which commits
 * to every token before its end and to what else shapes KV. One definition for whoever has the tokens (an
 * engine's scheduler side, in whatever language) and whoever keeps KV by content. 64-bit hashes are no
 * keys: a collision would serve another prompt's KV (architecture §8). Pure.
 */
import { createHash, hash } from 'node:crypto'

export const blockKeySizeBytes = 32

/**
 * The keys of consecutive blocks, packed: `blockKeySizeBytes` bytes each, in prompt order. Opaque: only
 * equality means anything. A request's keys belong together; a part of them is `subarray`.
 */
export type BlockKeys = Uint8Array

/** What KV depends on besides tokens. Values are compared as strings; absent and null are the same. */
export interface KvIdentity {
  readonly model: string
  /** Data type, order, heads and their size, layers: whatever two engines must share to use each other's bytes. */
  readonly layout: string
  readonly lora?: string | null
  /** Keeps tenants apart: the same text under another salt has other keys (vLLM's `cache_salt`). */
  readonly salt?: string | null
}

/** Changes with the definition below, so that keys of two definitions never meet. */
const domain = 'kvferry block key 1'

/** Key before the first block. Every field is preceded by its length, so that no two identities read alike. */
function identityDigest(identity: KvIdentity, blockTokens: number): Buffer {
  const hash = createHash('sha256')
  const field = (value: string | null | undefined): void => {
    const bytes = Buffer.from(value ?? '', 'utf8')
    // 1 more than the length: an absent value (0) differs from an empty one.
    hash.update(u32(value === null || value === undefined ? 0 : bytes.length + 1)).update(bytes)
  }
  field(domain)
  field(identity.model)
  field(identity.layout)
  field(identity.lora)
  field(identity.salt)
  return hash.update(u32(blockTokens)).digest()
}

function u32(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32LE(value)
  return bytes
}

/**
 * Keys of the blocks that hold `tokens`: key i = SHA-256(key i-1 ‖ token count u32 LE ‖ tokens, each u32 LE).
 * A last block that isn't full has a key of its own, since its token count is hashed too; it equals only
 * that of a prompt with the same end. For what a producer keeps pass the prompt without its last token:
 * a consumer computes that one itself.
 * @throws RangeError for a block size that is no positive integer or an id that is no u32.
 */
export function chainBlockKeys(
  identity: KvIdentity,
  tokens: ArrayLike<number>,
  blockTokens: number,
): BlockKeys {
  if (!Number.isInteger(blockTokens) || blockTokens < 1) {
    throw new RangeError(`blockTokens: ${blockTokens} is no positive integer`)
  }
  const count = Math.ceil(tokens.length / blockTokens)
  const keys = new Uint8Array(count * blockKeySizeBytes)
  const input = Buffer.alloc(blockKeySizeBytes + 4 + 4 * blockTokens)
  input.set(identityDigest(identity, blockTokens))
  for (let block = 0; block < count; block += 1) {
    const first = block * blockTokens
    const tokenCount = Math.min(blockTokens, tokens.length - first)
    input.writeUInt32LE(tokenCount, blockKeySizeBytes)
    let at = blockKeySizeBytes + 4
    for (let index = first; index < first + tokenCount; index += 1) {
      const token = tokens[index]!
      if (token >>> 0 !== token) throw new RangeError(`token ${index}: ${token} is no u32`)
      at = input.writeUInt32LE(token, at)
    }
    // In one call: a hash object costs half as much again, and there is one for each block.
    const key = hash('sha256', input.subarray(0, at), 'buffer')
    keys.set(key, block * blockKeySizeBytes)
    input.set(key)
  }
  return keys
}

export const blockKeyCount = (keys: BlockKeys): number => keys.length / blockKeySizeBytes
