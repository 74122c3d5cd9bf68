/** What the counters of tickets must say in every experiment. Pure. */
import type { HistoryCounterName, HistoryCounters } from './history-counters.ts'

/** What a connector with tickets has to report, so that a counter that isn't there is not taken for a 0. */
export const ticketCounterNames = [
  'registered',
  'finished',
  'expired',
] as const satisfies readonly HistoryCounterName[]

export type Check = (isGood: boolean, text: string) => void

export function checkReported(missing: readonly string[], check: Check): void {
  check(missing.length === 0, `the connector doesn't report ${missing.join(', ')}`)
}

/** `sent`: requests of all trials; each of them has a prompt of more than one token, so each has a ticket. */
export function checkTickets(counters: HistoryCounters, sent: number, check: Check): void {
  const { registered, finished, expired, failures, networkHostBatches } = counters
  check(
    registered === finished && registered === sent,
    `${registered} tickets registered and ${finished} finished, for ${sent} requests`,
  )
  check(expired === 0, `${expired} tickets expired`)
  check(failures === 0, `${failures} failures of the history`)
  check(networkHostBatches === 0, `${networkHostBatches} host batches over the network`)
}
