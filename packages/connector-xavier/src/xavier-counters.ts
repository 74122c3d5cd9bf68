/** What one worker counts. */
import { Counters } from '@kvferry/connector-api/protocol'
import { writeCounterNames } from '@kvferry/connector-api/remote-writes'

/** Registered = finished once nothing is open; expired tickets (`leasesExpired`) are finished, too. */
const names = [
  ...writeCounterNames,
  'ticketsRegistered',
  'ticketsFinished',
  /** Claims and releases by anyone but the claimant. */
  'claimsRefused',
] as const

export type XavierCounters = Counters<(typeof names)[number]>

export const createCounters = (): XavierCounters => new Counters(names)
