/** A request may have more blocks than its prompt fills: none of those beyond it is another engine's matter. */
import { expect, test } from 'vitest'
import { asRequestId, type RequestView } from '../src/index.ts'
import { blocksToFill, readableBlocks } from '../src/protocol/index.ts'

const blockTokens = 4
// Ten tokens fill three of them; the others wait for tokens that a draft proposes.
const blocks = [Uint32Array.of(7, 2, 5, 9, 11)]
const request: RequestView = {
  ...{ requestId: asRequestId('r'), promptTokenCount: 10, computedTokenCount: 14 },
  ...{ finishReason: 'length-capped', kvTransferParams: null, promptDigest: new Uint8Array(32) },
}

test('blocks that an engine keeps beyond the prompt, for tokens that it proposes, are neither filled nor handed over (65)', () => {
  expect(blocksToFill(10, 10, blocks, blockTokens)).toEqual([Uint32Array.of(7, 2, 5)])
  expect(blocksToFill(10, 6, blocks, blockTokens)).toEqual([Uint32Array.of(2, 5)])
  const readable = readableBlocks(request, 10, blocks, blockTokens)
  expect(readable).toEqual({ kind: 'readable', blockIds: Uint32Array.of(7, 2, 5) })
})
