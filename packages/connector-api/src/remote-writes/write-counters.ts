/** What one worker counts of its remote writes, as consumer and as producer. */
import type { Counters } from '../protocol/index.ts'

export const writeCounterNames = [
  'loadsStarted',
  'loadsDone',
  'loadsFailed',
  'loadsAborted',
  'loadSamplesDropped',
  'offersGivenUp',
  'handshakesDone',
  'handshakesFailed',
  'heartbeatsDone',
  'heartbeatsFailed',
  'registrationsAccepted',
  'registrationsRefused',
  'withdrawalsAnswered',
  'writesDone',
  'writesFailed',
  'writesOverdue',
  /** Of all that were posted, those on the path `slabs`. */
  'writesBySlabs',
  /** Consumers to whose GPU memory WRITEs by descriptors turned out to be emulated. */
  'peersEmulated',
  'leasesExpired',
  /** Kept for nobody: the answer with the handoff reached no one, and nobody had come for the blocks. */
  'handoffsUndelivered',
  'newsDropped',
  'notificationsLate',
  'messagesRefused',
] as const

export type WriteCounter = (typeof writeCounterNames)[number]

/** A protocol may count more. */
export type WriteCounters = Counters<WriteCounter>
