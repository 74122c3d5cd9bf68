/**
 * The lease machine's states, events and effects; lease-state.ts says what follows from what.
 */
import type { Instant } from '@kvferry/connector-api'
import type { Claim, Consumer, Reader, Share, Straggler } from './lease-claim.ts'
import type { LeaseAnswer } from './messages.ts'

export type LeaseState =
  /** Being computed. `promisedUntil`: granted to a reader whose question came before the lease began. */
  | {
      readonly kind: 'announced'
      readonly claim: Claim | null
      readonly promisedUntil: Instant | null
    }
  /** Its reader was done before the lease began. */
  | { readonly kind: 'over-early'; readonly claim: Claim }
  | { readonly kind: 'leased'; readonly claim: Claim | null; readonly deadline: Instant }
  /** Over, and remembered for a question of its reader that the notification overtook. */
  | { readonly kind: 'read'; readonly claim: Claim; readonly forgetAt: Instant }
  | { readonly kind: 'ended' }

export type LeaseEvent =
  | { readonly kind: 'lease-start'; readonly remainingMs: number }
  /** The request ended without KV that anyone may read. */
  | { readonly kind: 'withdraw' }
  /** A load asks for its share. */
  | ({ readonly kind: 'renew' } & ReaderNews)
  /** A consumer that was offered it, and has not read it, wants it kept. */
  | { readonly kind: 'heartbeat'; readonly consumer: Consumer }
  | ({ readonly kind: 'read-done' | 'release' } & ReaderNews)
  /** The answer with its handoff reached nobody. */
  | { readonly kind: 'undelivered' }
  | { readonly kind: 'timer' }

export interface ReaderNews {
  readonly reader: Reader
  readonly share: Share
}

export type LeaseEffect =
  | { readonly kind: 'answer'; readonly answer: LeaseAnswer }
  /** `timer` must follow at or after this instant. */
  | { readonly kind: 'arm'; readonly at: Instant }
  /** The blocks are the engine's again. */
  | { readonly kind: 'report-sent' }
  /**
   * The lease is over and a READ of its blocks perhaps not: it needs a polling target to end. `of` is null
   * for shares that nobody asked for: the question may be lost with its association.
   */
  | { readonly kind: 'expect-straggler'; readonly of: Straggler | null }
  | { readonly kind: 'count'; readonly what: LeaseCount }

export type LeaseCount =
  'granted' | 'expired' | 'read' | 'released' | 'undelivered' | 'late' | 'refused'

export interface LeaseContext {
  readonly leaseDurationMs: number
  readonly completedReadRetentionMs: number
}
