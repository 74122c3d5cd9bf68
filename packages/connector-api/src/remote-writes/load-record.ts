/** What the consumer's worker half keeps of one load beside its states, and the checks that an order must pass. */
import {
  ConnectorError,
  limits,
  type AnyConnectorError,
  type BlockIds,
  type LoadSample,
  type Timer,
} from '../index.ts'
import { limitExceeded, unsupported } from '../protocol/index.ts'
import type { LoadState } from './load-state.ts'
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

/** The token with which the order's first block begins: what was hit locally lies before it. */
export const firstTokenOf = (order: LoadOrder, blockTokens: number): number =>
  (Math.ceil(order.tokenEnd / blockTokens) - blocksOf(order).length) * blockTokens

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

/** What the harness gets of a load; the producer's measurements, summed over its ranks. */
export function sampleOf(record: LoadRecord, completeAtMs: number): LoadSample {
  const { order, bindAtMs, handshakeMs, blockedUs, parts } = record
  const news = parts.flatMap((part) => (part.news === null ? [] : [part.news]))
  const times = news.map((one) => one.times)
  const most = (values: readonly number[]): number => Math.max(0, ...values)
  const sum = (values: readonly number[]): number => values.reduce((total, one) => total + one, 0)
  return {
    ...{ requestId: order.requestId, bindAtMs, handshakeMs, completeAtMs },
    postedAtMs: news.length === 0 ? null : Math.min(...news.map((one) => one.postedAtMs)),
    queuedUs: most(times.map((one) => one.queuedUs)),
    prepareUs: most(times.map((one) => one.prepareUs)),
    postUs: most(times.map((one) => one.postUs)),
    wireUs: most(times.map((one) => one.wireUs)),
    bytes: sum(times.map((one) => one.bytes)),
    lastBytes: sum(news.map((one) => one.lastBytes)),
    descriptorsBeforeMerge: sum(times.map((one) => one.descriptorsBeforeMerge)),
    descriptorsAfterMerge: sum(times.map((one) => one.descriptorsAfterMerge)),
    // The producer's agent copies.
    ...{ blockedUs, blockedCopyUs: 0 },
  }
}
