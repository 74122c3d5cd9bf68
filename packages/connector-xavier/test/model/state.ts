/** One ticket and the consumers that want it, as the explorer sees them: plain data. */
import { asEngineId, asIncarnation, type AnyConnectorError } from '@kvferry/connector-api'
import type { RegistrationState, WriteState } from '@kvferry/connector-api/remote-writes'
import type { Claimant, TicketState } from '../../src/ticket-state.ts'

/** The rules that the shell adds to the shipped machines, each of them to be broken. */
export interface Rules {
  /** Anybody's load is taken on. */
  readonly servesAnyone: boolean
  /** A withdrawal that comes before its registration leaves no trace. */
  readonly forgetsWithdrawals: boolean
  /** A withdrawal is answered while the WRITE is open. */
  readonly answersAtOnce: boolean
  /** A ticket that is being read ends with its time. */
  readonly expiresUnderRead: boolean
  /** An answer that reached nobody ends a ticket that somebody has claimed all the same. */
  readonly takesBackClaims: boolean
  /** Blocks go back although history copies them. */
  readonly freesUnderCopy: boolean
  /** A consumer reports a load as soon as it is given up. */
  readonly freesAtAbort: boolean
}

export const shippedRules: Rules = {
  ...{ servesAnyone: false, forgetsWithdrawals: false, answersAtOnce: false },
  ...{ expiresUnderRead: false, takesBackClaims: false },
  ...{ freesUnderCopy: false, freesAtAbort: false },
}

export type MessageKind =
  | 'claim'
  | 'register'
  | 'withdraw'
  | 'release'
  | 'accept'
  | 'refuse'
  | 'silence'
  | 'withdrawn'
  | 'written'
  | 'notification'
  | 'failed'
  | 'leave'

export interface Message {
  readonly kind: MessageKind
  readonly consumer: number
}

export interface Consumer {
  registration: RegistrationState
  hasClaimed: boolean
  /** It has blocks, or does without. */
  hasDecided: boolean
  isReported: boolean
  isRetrying: boolean
  /** What is in its blocks. */
  landed: 'none' | 'good' | 'bad'
}

export interface ModelState {
  ticket: TicketState
  hasEnded: boolean
  /** The engine has the blocks again: others' bytes are in them. */
  isFreed: boolean
  isCopying: boolean
  part: { consumer: number; state: WriteState; hasWaiter: boolean } | null
  /** WRITEs that the agent has: into whose blocks. */
  writes: number[]
  withdrawn: number[]
  consumers: Consumer[]
  messages: Message[]
  faultsLeft: number
  abortsLeft: number
  problem: string | null
}

export const copy = (state: ModelState): ModelState =>
  JSON.parse(JSON.stringify(state)) as ModelState

/** Only that there is one matters. */
export const error = { code: 'ERR_KV_CLOSED' } as unknown as AnyConnectorError

export const claimantOf = (consumer: number): Claimant => ({
  engineId: asEngineId(`d${consumer}`),
  incarnation: asIncarnation('one'),
})

export const send = (state: ModelState, kind: MessageKind, consumer: number): void =>
  void state.messages.push({ kind, consumer })

export const fail = (state: ModelState, problem: string): void => {
  state.problem ??= problem
}
