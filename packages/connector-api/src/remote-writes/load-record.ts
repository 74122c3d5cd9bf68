/** What the consumer's worker half keeps of one load beside its states, and the checks that an order must pass. */
import {
  ConnectorError,
  limits,
  type AnyConnectorError,
  type BlockIds,
  type LoadSample,
  type LogFields,
  type Timer,
} from '../index.ts'
import {
  combineTimes,
  limitExceeded,
  loadedRun,
  unsupported,
  type LoadedRun,
  type LoadState,
} from '../protocol/index.ts'
import type { DoneNews } from './messages.ts'
import type { Offer } from './offer.ts'
import type { LinkKey, ProducerLink } from './producer-links.ts'
import type { RegistrationState } from './registration-state.ts'

/** Blocks that end with token `tokenEnd` of the prompt. */
export interface LoadOrder extends Offer {
  readonly localBlockIds: BlockIds
  readonly tokenEnd: number
}

/** One producer rank's share of a load. */
export interface PartRecord {
  readonly load: LoadRecord
  readonly loadId: number
  /** Of the producer. */
  readonly rank: number
  state: RegistrationState
  /** Set while it waits for a link. */
  key: LinkKey | null
  /** Set once it was registered over it. */
  link: ProducerLink | null
  retry: Timer | null
  news: DoneNews | null
}

export interface LoadRecord {
  readonly order: LoadOrder
  readonly parts: PartRecord[]
  readonly bindAtMs: number
  /** 0 when every link was there at once. */
  handshakeMs: number
  /** In the hook that began it. */
  blockedUs: number
  deadline: Timer | null
  /** Of its parts, those whose producer can't be reached. */
  doubtfulCount: number
  state: LoadState
}

export const blocksOf = ({ localBlockIds }: LoadOrder): Uint32Array =>
  localBlockIds[0] ?? new Uint32Array()

/** What it loads, on a cache with blocks of `blockTokens`. */
export const runOf = (order: LoadOrder, blockTokens: number): LoadedRun =>
  loadedRun(blocksOf(order), order.tokenEnd, blockTokens)

/** Why an order can't be carried out on this cache, or null. */
export function orderError(
  order: LoadOrder,
  { blockCount, blockTokens }: { readonly blockCount: number; readonly blockTokens: number },
): AnyConnectorError | null {
  const { localBlockIds, tokenEnd } = order
  if (localBlockIds.length !== 1) {
    return unsupported('groupCountMax', `load of ${localBlockIds.length} KV groups`)
  }
  const ids = blocksOf(order)
  if (ids.length > limits.blocksPerPostMax) {
    return limitExceeded('blocksPerPostMax', ids.length, limits.blocksPerPostMax)
  }
  const wrong = ids.find((id) => id >= blockCount)
  if (ids.length > 0 && ids.length <= Math.ceil(tokenEnd / blockTokens) && wrong === undefined) {
    return null
  }
  const value = wrong === undefined ? `${ids.length} blocks` : `block ${wrong} of ${blockCount}`
  const message = `load of ${tokenEnd} tokens into ${value}`
  return new ConnectorError('ERR_KV_HANDOFF_INVALID', message, { field: 'blocks', value })
}

/** Where it was to come from, and which of the producer's ranks failed it. */
export function sourceOf(
  { producer, transferId }: Pick<LoadOrder, 'producer' | 'transferId'>,
  tpRank: number,
  parts: readonly PartRecord[],
): LogFields {
  const { engineId, host, port } = producer
  const failed = parts.filter(({ state }) => state.kind === 'failed')
  return {
    ...{ rank: tpRank, engineId, host, port, transferId },
    failedRanks: failed.map(({ rank }) => rank).join(),
  }
}

/** What the harness gets of a load; the producer's measurements, summed over its ranks. */
export function sampleOf(record: LoadRecord, completeAtMs: number): LoadSample {
  const { order, bindAtMs, handshakeMs, blockedUs, parts } = record
  const news = parts.flatMap((part) => (part.news === null ? [] : [part.news]))
  return {
    ...{ requestId: order.requestId, bindAtMs, handshakeMs, completeAtMs },
    postedAtMs: news.length === 0 ? null : Math.min(...news.map((one) => one.postedAtMs)),
    ...combineTimes(news.map((one) => one.times)),
    lastBytes: news.reduce((total, one) => total + one.lastBytes, 0),
    // The producer's agent copies.
    ...{ blockedUs, blockedCopyUs: 0 },
  }
}
