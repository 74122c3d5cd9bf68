/**
 * Ends registrations whose consumer is silent, or whose prefill never comes: each is kept alive by a timer
 * that heartbeats set anew. A router asks both engines at once, so one without a request on this engine is
 * not kept by heartbeats: none will come. Owned by rendezvous-table.ts.
 */
import { ConnectorError, type AnyConnectorError, type Clock } from '@kvferry/connector-api'
import type { WriteEvent } from '@kvferry/connector-api/remote-writes'
import { pushLimits } from './limits.ts'
import type { PartRecord } from './rendezvous.ts'

export interface RegistrationWatchOptions {
  readonly clock: Clock
  readonly leaseDurationMs: number
  readonly dispatch: (part: PartRecord, event: WriteEvent) => void
}

export class RegistrationWatch {
  readonly #init: RegistrationWatchOptions

  constructor(init: RegistrationWatchOptions) {
    this.#init = init
  }

  /** Its consumer has spoken of it, or its prefill has come. */
  listenFor(part: PartRecord): void {
    const isOrphan = part.transfer.source === null
    if (part.silence !== null && isOrphan) return
    part.silence?.stop()
    const { clock, leaseDurationMs, dispatch } = this.#init
    const [delayMs, event]: [number, WriteEvent] = isOrphan
      ? [leaseDurationMs, { kind: 'source-fail', error: noPrefill(part) }]
      : [pushLimits.silentLeaseCountMax * leaseDurationMs, { kind: 'leave' }]
    part.silence = clock.after(delayMs, () => dispatch(part, event))
  }
}

function noPrefill({ registration }: PartRecord): AnyConnectorError {
  const what = `prefill for ${registration.transferId}`
  return new ConnectorError('ERR_KV_DEADLINE', `no ${what} came`, { what, deadlineMs: 0 })
}
