/**
 * Which of a request's blocks hold its prompt: those a producer may hand over, and those a consumer must
 * fill. Pure arithmetic on what the engine passed to a hook.
 */
import { limits, type BlockIds, type RequestView } from '../index.ts'

/** The blocks of a finished request that a consumer may read, or why there are none. */
export type ReadableBlocks =
  | { readonly kind: 'readable'; readonly blockIds: Uint32Array }
  | { readonly kind: 'unreadable'; readonly reason: string }

/** Readable: the request ended by itself, with the KV of its first `tokenCount` tokens in blocks of one group. */
export function readableBlocks(
  request: RequestView,
  tokenCount: number,
  blocks: BlockIds,
  blockTokens: number,
): ReadableBlocks {
  const { finishReason, computedTokenCount, promptTokenCount } = request
  if (finishReason !== 'length-capped' && finishReason !== 'stopped') {
    return unreadable(`it ended ${String(finishReason)}`)
  }
  const isPromptDone = promptTokenCount > 0 && computedTokenCount >= promptTokenCount
  if (!isPromptDone || tokenCount > computedTokenCount) {
    return unreadable(`${computedTokenCount} of ${promptTokenCount} prompt tokens are computed`)
  }
  const count = Math.ceil(tokenCount / blockTokens)
  const [ids, ...others] = blocks
  if (ids === undefined || others.length > 0) return unreadable(`${blocks.length} KV groups`)
  if (ids.length < count) return unreadable(`${ids.length} of ${count} blocks are left`)
  if (count > limits.blocksPerPostMax) return unreadable(`${count} blocks exceed one transfer`)
  return { kind: 'readable', blockIds: ids.slice(0, count) }
}

const unreadable = (reason: string): ReadableBlocks => ({ kind: 'unreadable', reason })

/**
 * The blocks after the local hit up to token `tokenEnd`, per group: they take its last
 * `externalTokenCount` tokens.
 * @throws RangeError when those do not start at a block.
 */
export function blocksToFill(
  tokenEnd: number,
  externalTokenCount: number,
  blocks: BlockIds,
  blockTokens: number,
): BlockIds {
  const hitBlockCount = (tokenEnd - externalTokenCount) / blockTokens
  if (!Number.isInteger(hitBlockCount) || hitBlockCount < 0) {
    throw new RangeError(
      `${externalTokenCount} of ${tokenEnd} tokens do not start at a block of ${blockTokens}`,
    )
  }
  const end = Math.ceil(tokenEnd / blockTokens)
  return blocks.map((ids) => ids.slice(hitBlockCount, end))
}
