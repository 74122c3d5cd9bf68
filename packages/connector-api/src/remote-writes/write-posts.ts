/**
 * From what is due to the agent's posts: one WRITE for each part that has something to send, all of a turn
 * in one call. Owned by write-table.ts.
 */
import type { KvCacheLayout, BlockTableHandle, TransferPost } from '../index.ts'
import { planBetweenRanks, type TokenRange } from '../protocol/index.ts'
import { encodeWriteDone } from './notification.ts'
import { hasOpenPosts, type WritePart, type WriteSource } from './write-part.ts'

/** This rank's cache. */
export interface SourceCache {
  readonly caches: KvCacheLayout
  readonly table: BlockTableHandle
  readonly rank: number
  readonly tpSize: number
}

/** Tokens of one part that can leave now. */
export interface DueWrite<Part extends WritePart> {
  readonly part: Part
  readonly source: WriteSource
  readonly range: TokenRange
  readonly isLast: boolean
  /** It tells the consumer that all has landed: nothing else of this part is open. */
  readonly isNotified: boolean
}

/** What of a part can leave and has not, or null. */
export function dueWrite<Part extends WritePart>(
  part: Part,
  blockTokens: number,
): DueWrite<Part> | null {
  const { source } = part.transfer
  const { kind } = part.state
  const isWriting = kind === 'writing' && !part.state.isLast
  if (source === null || (kind !== 'waiting' && !isWriting)) return null
  const isLast = source.isComplete
  // A block leaves once all of it is computed.
  const wholeEnd = Math.floor(source.tokenEnd / blockTokens) * blockTokens
  const end = isLast ? source.prompt.tokenCount : wholeEnd
  if (end <= part.writtenEnd) return null
  const range = { start: part.writtenEnd, end }
  return { part, source, range, isLast, isNotified: isLast && !hasOpenPosts(part) }
}

/** @throws ConnectorError ERR_KV_LIMIT when it would take too many descriptors. */
export function writePost(
  { part, source, range, isNotified }: DueWrite<WritePart>,
  { caches, table, rank, tpSize }: SourceCache,
  deadlineMs: number,
): TransferPost {
  const { peer, registration } = part
  const { facts } = peer
  const sides = planBetweenRanks(
    {
      ...{ layout: caches, table, blockIds: Uint32Array.from(source.blockIds), firstToken: 0 },
      ...{ rank, tpSize },
    },
    {
      ...{ layout: facts, table: peer.table, blockIds: registration.blockIds },
      ...{ firstToken: registration.firstToken, rank: peer.rank, tpSize: facts.tpSize },
    },
    range,
  )
  const { loadId } = registration
  return {
    ...{
      direction: 'write',
      peer: peer.peer,
      local: sides.source,
      remote: sides.target,
      deadlineMs,
    },
    ...(source.fence === null ? {} : { after: source.fence }),
    ...(isNotified ? { notification: encodeWriteDone({ token: peer.token, loadId }) } : {}),
  }
}
