/**
 * What follows an attempt at giving a handoff back: its end, another one at once, or a wait before it. Pure, with
 * bounds on attempts and time. Called by release-handoff.ts.
 */
import type { Instant } from '@kvferry/connector-api'
import { routerLimits } from './limits.ts'

export type AttemptEnd =
  /** A decode engine has it. */
  | { readonly kind: 'taken' }
  /** That engine will never take it: it doesn't know the endpoint, or what is in the handoff. */
  | { readonly kind: 'refused'; readonly reason: string }
  /** No answer, or none that says so: another attempt may fare better. */
  | { readonly kind: 'failed'; readonly reason: string }
  /** No decode engine is left to ask; `isForGood`: because those that are up have refused it. */
  | { readonly kind: 'nobody'; readonly isForGood: boolean; readonly reason: string }

export interface ReleaseProgress {
  readonly startedAt: Instant
  /** Made so far, the one that has just ended among them. */
  readonly attemptCount: number
  /** The router closes: what waits has one attempt left. */
  readonly isLast: boolean
}

export type NextStep =
  | { readonly kind: 'sent' }
  | { readonly kind: 'give-up'; readonly reason: string }
  | { readonly kind: 'try'; readonly waitMs: number }

/** `uniform`: random, in [0, 1); spreads the attempts of handoffs that failed together. */
export function afterAttempt(
  end: AttemptEnd,
  { startedAt, attemptCount, isLast }: ReleaseProgress,
  now: Instant,
  uniform: number,
): NextStep {
  if (end.kind === 'taken') return { kind: 'sent' }
  const { reason } = end
  const isOver = isLast || attemptCount >= routerLimits.releaseAttemptCountMax
  if (isOver || (end.kind === 'nobody' && end.isForGood)) return { kind: 'give-up', reason }
  // It says nothing of the others.
  const waitMs = end.kind === 'refused' ? 0 : backOffMs(attemptCount) * (0.5 + uniform / 2)
  const hasTime = now + waitMs - startedAt < routerLimits.releaseDeadlineMs
  return hasTime ? { kind: 'try', waitMs } : { kind: 'give-up', reason }
}

function backOffMs(attemptCount: number): number {
  const { releaseRetryMs, releaseRetryMsMax } = routerLimits
  return Math.min(releaseRetryMsMax, releaseRetryMs * 2 ** (attemptCount - 1))
}

/** What the next attempt may take, of at most `attemptMs`. */
export const attemptDeadlineMs = (startedAt: Instant, now: Instant, attemptMs: number): number =>
  Math.min(attemptMs, startedAt + routerLimits.releaseDeadlineMs - now)
