/** One consumer rank's registration, as the producer rank keeps it, and the KV that it is for. */
import type { ReadyFence, RequestId, Timer, TransferTimes } from '../index.ts'
import type { ConsumerPeer } from './consumer-peers.ts'
import type { Registration, WithdrawReply } from './messages.ts'
import type { PromptFacts } from './offer.ts'
import { openPostCount, type WriteState } from './write-state.ts'

/** KV of a request on this engine, as far as it is there. */
export interface WriteSource {
  readonly requestId: RequestId
  readonly prompt: PromptFacts
  /** In token order. */
  readonly blockIds: readonly number[]
  /** Tokens whose KV is there once `fence` is signalled. */
  readonly tokenEnd: number
  readonly isComplete: boolean
  readonly fence: ReadyFence | null
}

/** A consumer that waits for the answer to a withdrawal. */
export type Waiter = (reply: WithdrawReply) => void

export interface WritePart {
  /** `source` is null while this engine has no request for it. */
  readonly transfer: { readonly source: WriteSource | null }
  readonly registration: Registration
  readonly peer: ConsumerPeer
  state: WriteState
  /** Tokens before it are posted. */
  writtenEnd: number
  /** Ends it when its consumer gives no sign for long. */
  silence: Timer | null
  /** Consumers that wait for a withdrawal's answer. */
  readonly waiters: Set<Waiter>
  times: TransferTimes | null
  postedAtMs: number
  /** Of its ended WRITEs those that were under way when the latest of them began, and that one. */
  lastWrites: { readonly endMs: number; readonly bytes: number }[]
}

export const isOpen = ({ state }: WritePart): boolean => state.kind !== 'ended'

export const hasOpenPosts = ({ state }: WritePart): boolean => openPostCount(state) > 0
