/**
 * What the consumer's worker half keeps of one load beside its states, the checks that an order must pass
 * before anything is posted, and the sample that is left of it for the harness. Pure.
 */
import {
  ConnectorError,
  limits,
  type AnyConnectorError,
  type BlockIds,
  type LoadSample,
  type LogFields,
  type RequestId,
  type TransferTimes,
} from '@kvferry/connector-api'
import {
  combineTimes,
  limitExceeded,
  loadedRun,
  takenAtMs,
  unsupported,
  type LoadedRun,
  type LoadState,
} from '@kvferry/connector-api/protocol'
import type { PeerLink } from './connection-state.ts'
import type { Handoff } from './metadata.ts'
import type { PeerKey } from './peer-listener.ts'
import type { ReadState } from './read-state.ts'

/** What a request came with. */
export interface Offer {
  readonly requestId: RequestId
  readonly handoff: Handoff
  /** Of this life of this engine, the same on all of its ranks. */
  readonly loadId: number
}

/** Blocks that end with token `tokenEnd` of the handoff's. */
export interface LoadOrder extends Offer {
  readonly localBlockIds: BlockIds
  readonly tokenEnd: number
}

/** One producer rank's share of a load: one READ. */
export interface ReadRecord {
  readonly load: LoadRecord
  /** Of the producer. */
  readonly rank: number
  /** Set when it waits for a connection, or has one. */
  peer: PeerKey | null
  /** Set when the connection is ready. */
  link: PeerLink | null
  /** When the READ was handed to the agent; null before. */
  handedOverAtMs: number | null
  /** Of the engine's thread, for checking and planning it, asking for its lease, and handing it over. */
  blockedUs: number
  state: ReadState
}

export interface LoadRecord {
  readonly order: LoadOrder
  readonly reads: ReadRecord[]
  readonly bindAtMs: number
  /** 0 when every connection was ready at once. */
  handshakeMs: number
  /** Of the engine's thread, for taking it on. */
  startUs: number
  /** READs past their deadline, which may still write: while there is one its blocks are in quarantine. */
  overdueCount: number
  state: LoadState
}

export const blocksOf = ({ localBlockIds }: LoadOrder): Uint32Array =>
  localBlockIds[0] ?? new Uint32Array()

export const isOverdue = ({ state }: ReadRecord): boolean =>
  state.kind === 'overdue' || state.kind === 'draining-overdue'

/** What it loads, on a cache with blocks of `blockTokens`. */
export const runOf = (order: LoadOrder, blockTokens: number): LoadedRun =>
  loadedRun(blocksOf(order), order.tokenEnd, blockTokens)

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

/** `isInline`: the engine's thread waited for the posts, and so for what they copied. */
export function sampleOf(record: LoadRecord, completeAtMs: number, isInline: boolean): LoadSample {
  const { order, bindAtMs, handshakeMs, reads } = record
  const ended = reads.flatMap(({ state, handedOverAtMs }) =>
    state.kind === 'ended' && state.times !== null && handedOverAtMs !== null
      ? [{ times: state.times, handedOverAtMs }]
      : [],
  )
  const times: TransferTimes = combineTimes(ended.map((one) => one.times))
  const blockedUs = reads.reduce((sum, read) => sum + read.blockedUs, record.startUs)
  const copyUs = isInline ? Math.max(0, times.postUs - times.prepareUs) : 0
  const takenAt = ended.map((one) => takenAtMs(one.handedOverAtMs, one.times))
  return {
    ...{ requestId: order.requestId, bindAtMs, handshakeMs, completeAtMs },
    postedAtMs: takenAt.length === 0 ? null : Math.min(...takenAt),
    ...times,
    // One READ from each rank moves all.
    lastBytes: times.bytes,
    ...{ blockedUs, blockedCopyUs: Math.min(copyUs, blockedUs) },
  }
}

/** Where it was to come from, and which of the producer's ranks failed it. */
export function sourceOf(
  { handoff }: Pick<LoadOrder, 'handoff'>,
  tpRank: number,
  reads: readonly ReadRecord[],
): LogFields {
  const { remote, blockIds } = handoff
  const { engineId, host, port, requestId: producerRequestId } = remote
  const failed = reads.filter(
    ({ state }) => state.kind === 'ended' && state.outcome.kind === 'failed',
  )
  return {
    ...{ rank: tpRank, engineId, host, port, producerRequestId },
    producerBlocks: blockIds.length,
    failedRanks: failed.map(({ rank }) => rank).join(),
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
