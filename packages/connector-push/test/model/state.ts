/** A state of the model: plain data. A job's prompt has two chunks; a pair is one producer rank of a job. */
import type { AnyConnectorError } from '@kvferry/connector-api'
import type { LoadState } from '@kvferry/connector-api/protocol'
import type { RegistrationState, WriteState } from '@kvferry/connector-api/remote-writes'
import type { SourceState } from '../../src/source-state.ts'

export const chunkCount = 2

/** Posted and without final status; the producer's process that posted it may be a former one. */
export interface OpenWrite {
  readonly start: number
  readonly end: number
  readonly isNotified: boolean
  /** Of the source's content: another one, and what lands is another's. */
  readonly generation: number
  readonly life: number
  /** The forward that computes its bytes has not ended. */
  isBehindFence: boolean
}

export interface Pair {
  // On the consumer.
  registration: RegistrationState
  isRetrying: boolean
  /** What lies in its blocks. */
  landed: ('none' | 'good' | 'bad')[]
  // On the producer's present life.
  life: number
  source: SourceState | null
  handedOver: number
  computed: number
  generation: number
  part: WriteState | null
  writtenEnd: number
  hasWaiter: boolean
  isWithdrawn: boolean
  isReleased: boolean
  isOver: boolean
  isPreempting: boolean
  hasRung: boolean
  // Between them.
  isLinked: boolean
  /** Whom the consumer asked; 0: nobody yet. */
  askedLife: number
  /** Processes of that producer that are not reaped. */
  livingLives: number[]
  writes: OpenWrite[]
}

export interface Job {
  load: LoadState
  isReported: boolean
  isConsumerDead: boolean
  hasStarted: boolean
  pairs: Pair[]
}

export type MessageKind =
  | 'register'
  | 'withdraw'
  | 'release'
  | 'accept'
  | 'refuse'
  | 'withdrawn'
  | 'written'
  | 'silence'
  | 'notification'
  | 'done'
  | 'failed'
  | 'leave'

/** `life`: the producer's, whose question or word it is. */
export interface Message {
  readonly kind: MessageKind
  readonly job: number
  readonly pair: number
  readonly life: number
}

export interface ModelState {
  jobs: Job[]
  messages: Message[]
  faultsLeft: number
  abortsLeft: number
  preemptionsLeft: number
  problem: string | null
}

export const copy = (state: ModelState): ModelState =>
  JSON.parse(JSON.stringify(state)) as ModelState

/** Only that there is one matters. */
export const error = { code: 'ERR_KV_CLOSED' } as unknown as AnyConnectorError

export const send = (state: ModelState, message: Message): void => void state.messages.push(message)

export const fail = (state: ModelState, problem: string): void => {
  state.problem ??= problem
}
