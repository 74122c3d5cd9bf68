/** What one worker counts. */
import type { Metrics } from '@kvferry/connector-api'
import { Counters } from '@kvferry/connector-api/protocol'
import { writeCounterNames } from '@kvferry/connector-api/remote-writes'
import type { TicketCount } from './ticket-state.ts'

/** Registered = finished once nothing is open; expired tickets (`leasesExpired`) are finished, too. */
const names = [
  ...writeCounterNames,
  'ticketsRegistered',
  'ticketsFinished',
  /** Claims and releases by anyone but the claimant. */
  'claimsRefused',
] as const

export type XavierCounter = (typeof names)[number]
export type XavierCounters = Counters<XavierCounter>

export const createCounters = (): XavierCounters => new Counters(names)

/** What befell a ticket, in our counters and in the metrics that all connectors share. */
export function countTicket(
  of: { readonly counters: XavierCounters; readonly components: { readonly metrics: Metrics } },
  what: TicketCount,
): void {
  const {
    counters,
    components: { metrics },
  } = of
  switch (what) {
    case 'registered':
      counters.add('ticketsRegistered')
      metrics.add('kv_leases_granted_total')
      return
    case 'expired':
      counters.add('leasesExpired')
      metrics.add('kv_leases_expired_total')
      return
    case 'finished':
      counters.add('ticketsFinished')
      return
    case 'undelivered':
      counters.add('handoffsUndelivered')
      return
    case 'refused':
      counters.add('claimsRefused')
      metrics.add('kv_messages_refused_total', 1, { where: 'lease' })
      return
  }
}
