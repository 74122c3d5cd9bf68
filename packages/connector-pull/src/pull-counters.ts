/** What one worker counts. */
import { Counters } from '@kvferry/connector-api/protocol'

const names = [
  'loadsStarted',
  'loadsDone',
  'loadsFailed',
  'loadsAborted',
  'loadsOverdue',
  /** Of all READs that were posted, those on the path `slabs`. */
  'readsBySlabs',
  /** Producers of whose GPU memory READs by descriptors turned out to be emulated. */
  'peersEmulated',
  'loadSamplesDropped',
  'handshakesDone',
  'handshakesFailed',
  'heartbeatsDone',
  'heartbeatsFailed',
  'releasesSent',
  'releasesFailed',
  'leasesGranted',
  'leasesExpired',
  'leasesRead',
  'leasesReleased',
  /** Kept for nobody: the answer with the handoff reached no one, and no load had asked. */
  'handoffsUndelivered',
  'notificationsLate',
  'messagesRefused',
] as const

export type PullCounter = (typeof names)[number]
export type PullCounters = Counters<PullCounter>

export const createCounters = (): PullCounters => new Counters(names)
