/** What one worker counts. */
import { Counters } from '@kvferry/connector-api/protocol'

const names = [
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
  'leasesExpired',
  'newsDropped',
  'notificationsLate',
  'messagesRefused',
] as const

export type PushCounters = Counters<(typeof names)[number]>

export const createCounters = (): PushCounters => new Counters(names)
