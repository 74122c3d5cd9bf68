/**
 * Content identity of blocks, chained over the prefix: two blocks with the same hash hold the KV of
 * the same tokens after the same prefix. SHA-256, because a collision would serve another prompt's KV.
 */
import { createHash } from 'node:crypto'
import { chainBlockKeys, type KvCacheLayout } from '@kvferry/connector-api'
import type { BlockKeyer } from './request-state.ts'

/** 32 bytes as base64: a key of the prefix cache. */
export type BlockHash = string

/** Hash of `tokens[0 … length)` (one block) that follows the block with hash `parent` (null: none). */
export function hashBlock(parent: BlockHash | null, tokens: Uint8Array): BlockHash {
  return createHash('sha256')
    .update(parent ?? 'kvferry')
    .update(tokens)
    .digest('base64')
}

/** Extends `hashes` to all full blocks among the first `tokenCount` tokens. */
export function extendBlockHashes(
  hashes: BlockHash[],
  tokens: Uint8Array,
  tokenCount: number,
  blockTokens: number,
): void {
  const fullCount = Math.floor(tokenCount / blockTokens)
  for (let index = hashes.length; index < fullCount; index++) {
    const start = index * blockTokens
    hashes.push(hashBlock(hashes[index - 1] ?? null, tokens.subarray(start, start + blockTokens)))
  }
}

/** The keys that connectors of this engine know blocks by (`RequestView.blockKeysOf`). */
export function blockKeyer(caches: KvCacheLayout): BlockKeyer {
  const { model, dtype, layout, layerCount, kvHeadCount, headSize, blockTokens } = caches
  const shape = [dtype, layout, layerCount, kvHeadCount, headSize].join(' ')
  return (tokens) => chainBlockKeys({ model, layout: shape }, tokens, blockTokens)
}
