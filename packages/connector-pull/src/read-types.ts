/**
 * The read machine's states, events and effects; read-state.ts says what follows from what.
 */
import type {
  AnyConnectorError,
  Instant,
  TransferHandle,
  TransferTimes,
} from '@kvferry/connector-api'
import type { LoadOutcome } from '@kvferry/connector-api/protocol'

/** What is known about the lease while the READ runs. */
export type Grant =
  | { readonly kind: 'asked' }
  | { readonly kind: 'granted'; readonly validUntil: Instant }
  | { readonly kind: 'refused'; readonly error: AnyConnectorError }
  /** The question or its answer was lost. */
  | { readonly kind: 'unanswered' }

export type ReadState =
  | { readonly kind: 'connecting' }
  /** The producer stages its blocks: its grant says that they can be read. */
  | { readonly kind: 'requesting' }
  /** Handed to the agent at the end of this turn, unless an abort travelled in the same step. */
  | { readonly kind: 'posting' }
  /** The turn ends: the question for the lease is on its way, and the agent takes the READ next. */
  | { readonly kind: 'asked' }
  | { readonly kind: 'reading'; readonly transfer: TransferHandle; readonly grant: Grant }
  /** Past its deadline, and may still write: the blocks are in quarantine. */
  | { readonly kind: 'overdue'; readonly transfer: TransferHandle; readonly grant: Grant }
  /** Aborted by the engine while the READ may still write. */
  | { readonly kind: 'draining'; readonly transfer: TransferHandle }
  | { readonly kind: 'draining-overdue'; readonly transfer: TransferHandle }
  /** The READ is done; the answer to a question asked *before* its end is awaited. */
  | { readonly kind: 'awaiting-grant'; readonly times: TransferTimes }
  /** The READ is done and the producer was asked *after* its end: its answer decides. */
  | { readonly kind: 'checking'; readonly times: TransferTimes }
  | { readonly kind: 'ended'; readonly outcome: LoadOutcome; readonly times: TransferTimes | null }

export type ReadEvent =
  | { readonly kind: 'peer-ready' }
  /** The same, of a producer that stages its blocks. */
  | { readonly kind: 'peer-ready-staged' }
  | { readonly kind: 'peer-fail'; readonly error: AnyConnectorError }
  /** The handoff is not what its producer wrote, or its lease is over: nothing is read or given back. */
  | { readonly kind: 'handoff-refuse'; readonly error: AnyConnectorError }
  | { readonly kind: 'handoff-accept' }
  | { readonly kind: 'post-end'; readonly transfer: TransferHandle }
  | { readonly kind: 'post-fail'; readonly error: AnyConnectorError }
  | { readonly kind: 'transfer-done'; readonly times: TransferTimes }
  | {
      readonly kind: 'transfer-fail'
      readonly error: AnyConnectorError
      readonly times: TransferTimes
    }
  | { readonly kind: 'transfer-overdue' }
  | { readonly kind: 'lease-grant'; readonly sentAt: Instant; readonly durationMs: number }
  /** The producer has had this load's read-done message while it held the blocks. */
  | { readonly kind: 'lease-complete' }
  | { readonly kind: 'lease-refuse'; readonly error: AnyConnectorError }
  /** No answer: the association closed, or the wait ran out. */
  | { readonly kind: 'lease-silence'; readonly error: AnyConnectorError }
  | { readonly kind: 'abort' }

export type ReadEffect =
  | { readonly kind: 'post' }
  /** Ask the producer for the lease; `lease-*` follows exactly once. */
  | { readonly kind: 'ask' }
  /** No read-done message will come: tell the producer that it may free. */
  | { readonly kind: 'release' }
  | { readonly kind: 'report'; readonly outcome: LoadOutcome }
