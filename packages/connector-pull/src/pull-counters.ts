/**
 * Totals of one worker since it started, by name, for `getStats`. Names are fixed here, so that a typing
 * error can't make a second counter. Metrics (Prometheus) are kept beside them where they have one.
 */
const names = [
  'loadsStarted',
  'loadsDone',
  'loadsFailed',
  'loadsAborted',
  'loadsOverdue',
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
  'notificationsLate',
  'messagesRefused',
] as const

export type CounterName = (typeof names)[number]

export class PullCounters {
  readonly #values = Object.fromEntries(names.map((name) => [name, 0])) as Record<
    CounterName,
    number
  >

  add(name: CounterName): void {
    this.#values[name] += 1
  }

  /** A copy. */
  snapshot(): Record<CounterName, number> {
    return { ...this.#values }
  }
}
