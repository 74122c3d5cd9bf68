/**
 * The state of the explored cluster, as plain data: what each engine's halves remember (the shipped
 * machines' states), what is in flight between them, and what its blocks hold. Changed only in copies.
 */
import type { Instant } from '@kvferry/connector-api'
import type { ConnectionState } from '../../src/connection-state.ts'
import type {
  ConsumerRequestState,
  LoadOutcome,
  LoadState,
  ProducerRequestState,
} from '@kvferry/connector-api/protocol'
import type { LeaseAnswer } from '../../src/messages.ts'
import type { LeaseEvent, LeaseState, Reader, Share } from '../../src/lease-state.ts'
import type { ReadState } from '../../src/read-state.ts'

export type ProducerName = 'p0' | 'p1'
export type ConsumerName = 'd0' | 'd1'

/**
 * Ranks of each producer and of each consumer: one of the two is 1, so that a pair of ranks that share heads
 * (one READ of a load) has one number, the rank on the side that has several.
 */
export interface Ranks {
  readonly producer: number
  readonly consumer: number
}

export const pairsOf = ({ producer, consumer }: Ranks): number[] =>
  Array.from({ length: Math.max(producer, consumer) }, (_, pair) => pair)

/** The ranks of a pair. */
export const producerRankOf = ({ producer }: Ranks, pair: number): number =>
  producer > 1 ? pair : 0
export const consumerRankOf = ({ consumer }: Ranks, pair: number): number =>
  consumer > 1 ? pair : 0

/** What the producer's scheduler half has yet to tell its worker half. */
export type ProducerEntry =
  | { readonly kind: 'lease'; readonly job: string; readonly deadline: Instant }
  | { readonly kind: 'withdraw'; readonly job: string }
  | { readonly kind: 'undelivered'; readonly job: string }

export interface ProducedRequest {
  request: ProducerRequestState
  /** By rank. */
  readonly leases: Lease[]
  blocks: readonly number[]
  /** Ranks that have reported its end; the engine acts on it when all have. */
  sentCount: number
}

export interface Lease {
  /** Null once the worker half has forgotten it. */
  state: LeaseState | null
  timerAt: Instant | null
}

export interface ProducerState {
  life: number
  /** What each block holds: a job's KV in one life, or `x`. */
  memory: string[]
  requests: Record<string, ProducedRequest>
  outbox: ProducerEntry[]
  sent: string[]
}

export type ConsumerEntry = 'load' | 'release' | 'abort'

/** One job on one consumer, in one life of it. */
export interface ConsumedRequest {
  readonly job: string
  readonly producer: ProducerName
  readonly producerLife: number
  readonly loadId: number
  readonly remoteBlocks: readonly number[]
  readonly blocks: readonly number[]
  request: ConsumerRequestState
  /** By rank; null before its load has begun. */
  readonly loads: (LoadState | null)[]
  /** By pair; null before. */
  readonly reads: (ReadState | null)[]
  outbox: ConsumerEntry[]
  /** By rank; the engine hears of its end when each has one. */
  readonly reports: LoadOutcome[][]
}

export interface ConnectionRecord {
  state: ConnectionState
  /** The producer's life that was reached. */
  life: number
  /** The association still carries something; its end may not be known yet. */
  isOpen: boolean
}

export interface ConsumerState {
  life: number
  /** By pair, the part of each block that it reads. */
  readonly memory: string[][]
  requests: Record<string, ConsumedRequest>
  /** By producer, the life that a handoff names, and the pair. */
  connections: Record<string, ConnectionRecord>
}

export interface OpenTransfer {
  readonly consumer: ConsumerName
  readonly job: string
  readonly pair: number
  readonly producer: ProducerName
  readonly producerLife: number
  /** Of the blocks, in order. */
  copied: number
  /** The target's memory, once its process is gone. */
  remains: readonly string[] | null
  isOverdue: boolean
  readonly postedAt: Instant
}

export type Message =
  | {
      readonly kind: 'question'
      readonly consumer: ConsumerName
      readonly job: string
      readonly pair: number
      readonly producer: ProducerName
      readonly producerLife: number
      readonly reader: Reader
      readonly share: Share
      readonly sentAt: Instant
    }
  | {
      readonly kind: 'answer'
      readonly consumer: ConsumerName
      readonly job: string
      readonly pair: number
      readonly producer: ProducerName
      readonly answer: LeaseAnswer
      readonly sentAt: Instant
    }
  /** A question that was lost: the consumer hears nothing. */
  | {
      readonly kind: 'silence'
      readonly consumer: ConsumerName
      readonly job: string
      readonly pair: number
    }
  /** News for a lease: a notification, or a release over the side channel. */
  | {
      readonly kind: 'news'
      readonly event: Extract<LeaseEvent, { kind: 'read-done' | 'release' }>
      readonly job: string
      readonly pair: number
      readonly producer: ProducerName
      readonly producerLife: number
    }
  /** A READ's final status, on its way to the consumer's worker half. */
  | {
      readonly kind: 'completion'
      readonly consumer: ConsumerName
      readonly job: string
      readonly pair: number
      readonly isDone: boolean
    }
  | { readonly kind: 'association-end'; readonly consumer: ConsumerName; readonly key: string }

/** A handoff on its way through the router; each may be used by several consumers. */
export interface Handoff {
  readonly job: string
  readonly producer: ProducerName
  readonly producerLife: number
  readonly blocks: readonly number[]
}

export interface ClusterState {
  readonly ranks: Ranks
  now: Instant
  faultsLeft: number
  abortsLeft: number
  producers: Partial<Record<ProducerName, ProducerState>>
  consumers: Partial<Record<ConsumerName, ConsumerState>>
  transfers: OpenTransfer[]
  messages: Message[]
  handoffs: Handoff[]
  /** Which consumers are still to get which job. */
  dispatches: { readonly job: string; readonly consumer: ConsumerName }[]
  /** What is wrong, found while a step was taken. */
  problem: string | null
}

/** Plain data: objects and arrays, all the way down. */
export function copy<T>(value: T): T {
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map(copy) as T
  const copied: Record<string, unknown> = {}
  for (const key in value) copied[key] = copy(value[key])
  return copied as T
}

export const contentOf = (job: string, producerLife: number): string => `${job}/${producerLife}`
export const connectionKey = (producer: ProducerName, life: number, pair: number): string =>
  `${producer}/${life}/${pair}`
