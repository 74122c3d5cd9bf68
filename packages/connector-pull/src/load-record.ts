/**
 * What the consumer's worker half keeps of one load beside its state, the checks that an order must pass
 * before anything is posted, and the sample that is left of it for the harness. Pure.
 */
import {
  ConnectorError,
  limits,
  type AnyConnectorError,
  type BlockIds,
  type LoadSample,
  type RequestId,
  type TransferTimes,
} from '@kvferry/connector-api'
import { limitExceeded, takenAtMs, unsupported } from '@kvferry/connector-api/protocol'
import type { PeerLink } from './connection-state.ts'
import type { LoadState } from './load-state.ts'
import type { Handoff } from './metadata.ts'
import type { PeerKey } from './peer-connections.ts'

/** Blocks that end with token `tokenEnd` of the handoff's. */
export interface LoadOrder {
  readonly requestId: RequestId
  readonly handoff: Handoff
  readonly localBlockIds: BlockIds
  readonly tokenEnd: number
}

/** Why it failed, or null; never rejects. */
export type FinishRead = () => Promise<AnyConnectorError | null>

export interface LoadRecord {
  readonly order: LoadOrder
  readonly loadId: number
  /** Set when it waits for a connection, or has one. */
  peer: PeerKey | null
  readonly bindAtMs: number
  /** 0 when the connection was ready at once. */
  handshakeMs: number
  /** Set when the connection is ready. */
  link: PeerLink | null
  /** Set when the READ is posted: what is left to do with its bytes. */
  finish: FinishRead | null
  /** When its READ was handed to the agent; null before. */
  handedOverAtMs: number | null
  /** Of the engine's thread, for planning its READ and handing it over. */
  blockedUs: number
  state: LoadState
}

export const blockCountOf = (order: LoadOrder): number => order.localBlockIds[0]?.length ?? 0

/** Why an order can't be carried out on this cache, or null. */
export function orderError(
  order: LoadOrder,
  { blockCount, blockTokens }: { readonly blockCount: number; readonly blockTokens: number },
): AnyConnectorError | null {
  const { localBlockIds, handoff, tokenEnd } = order
  if (localBlockIds.length !== 1) {
    return unsupported('groupCountMax', `load of ${localBlockIds.length} KV groups`)
  }
  const local = localBlockIds[0]!
  if (local.length > limits.blocksPerPostMax) {
    return limitExceeded('blocksPerPostMax', local.length, limits.blocksPerPostMax)
  }
  const isCovered = tokenEnd <= handoff.tokenCount
  if (local.length === 0 || !isCovered || local.length > Math.ceil(tokenEnd / blockTokens)) {
    return invalidBlocks(`${handoff.blockIds.length} for ${local.length} local ones`)
  }
  return outOfRange(local, blockCount)
}

/** The first id that a table of `blockCount` blocks does not have. */
export function outOfRange(ids: Uint32Array, blockCount: number): AnyConnectorError | null {
  const wrong = ids.find((id) => id >= blockCount)
  return wrong === undefined ? null : invalidBlocks(`block ${wrong} of ${blockCount}`)
}

function invalidBlocks(value: string): AnyConnectorError {
  return new ConnectorError('ERR_KV_HANDOFF_INVALID', `handoff: remote_block_ids are ${value}`, {
    field: 'remote_block_ids',
    value,
  })
}

const noTimes: TransferTimes = {
  queuedUs: 0,
  prepareUs: 0,
  postUs: 0,
  wireUs: 0,
  descriptorsBeforeMerge: 0,
  descriptorsAfterMerge: 0,
  bytes: 0,
}

/** `isInline`: the engine's thread waited for the post, and so for what the post copied. */
export function sampleOf(
  record: LoadRecord,
  measured: TransferTimes | null,
  completeAtMs: number,
  isInline: boolean,
): LoadSample {
  const { order, bindAtMs, handshakeMs, handedOverAtMs, blockedUs } = record
  const times = measured ?? noTimes
  const copyUs = isInline ? Math.max(0, times.postUs - times.prepareUs) : 0
  return {
    ...{ requestId: order.requestId, bindAtMs, handshakeMs, completeAtMs },
    postedAtMs:
      handedOverAtMs === null || measured === null ? null : takenAtMs(handedOverAtMs, measured),
    ...times,
    // One READ moves all.
    lastBytes: times.bytes,
    ...{ blockedUs, blockedCopyUs: Math.min(copyUs, blockedUs) },
  }
}

/** What the engine is told of a load, whatever became of it. */
export const reported = ({
  requestId,
  localBlockIds,
}: Pick<LoadOrder, 'requestId' | 'localBlockIds'>) => ({
  requestId,
  blockIds: localBlockIds,
})
