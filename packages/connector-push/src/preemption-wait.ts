/**
 * Waits for WRITEs that read the blocks of requests which the engine has preempted: those get new owners
 * when the wait is over. WRITEs of a part of the prompt are waited for up to a limit: later ones fail their
 * registration, so wrong bytes stay unused. The last WRITE of a prompt tells the consumer by itself that
 * all is well, so it must end first, however long that takes. Owned by producer-worker.ts.
 */
import type { RequestId, Timer, WorkerComponents } from '@kvferry/connector-api'
import { closed } from '@kvferry/connector-api/protocol'
import { pushLimits } from './limits.ts'
import type { PartRecord } from './rendezvous.ts'
import type { RendezvousTable } from './rendezvous-table.ts'

export class PreemptionWait {
  readonly #components: WorkerComponents
  readonly #table: RendezvousTable
  readonly #waits = new Set<() => void>()
  readonly #timers = new Set<Timer>()

  constructor(components: WorkerComponents, table: RendezvousTable) {
    this.#components = components
    this.#table = table
  }

  of(requestIds: readonly RequestId[]): Promise<void> {
    for (const requestId of requestIds) this.#table.tell(requestId, { kind: 'preempt' })
    if (!this.#table.openPartsOf(requestIds).some(mustEnd)) return Promise.resolve()
    return new Promise((resolve) => {
      const { clock } = this.#components
      const timer = clock.after(pushLimits.preemptionWaitMs, () => {
        this.#giveUp(this.#table.openPartsOf(requestIds))
        check()
      })
      const check = (): void => {
        if (this.#table.openPartsOf(requestIds).some(mustEnd)) return
        timer.stop()
        this.#timers.delete(timer)
        this.#waits.delete(check)
        resolve()
      }
      this.#waits.add(check)
      this.#timers.add(timer)
    })
  }

  /** Leaves no timer. What is still waited for is: its blocks are being read. */
  close(): void {
    for (const timer of this.#timers) timer.stop()
    this.#timers.clear()
  }

  /** A WRITE has ended. */
  check(): void {
    for (const check of [...this.#waits]) check()
  }

  #giveUp(parts: readonly PartRecord[]): void {
    const error = closed('preempted prefill')
    for (const part of parts) this.#table.writes.dispatch(part, { kind: 'source-fail', error })
    const left = parts.filter(mustEnd)
    if (left.length === 0) return
    const engineIds = left.map(({ peer }) => peer.identity.engineId)
    this.#components.logger.error('a preempted request waits for the end of its WRITE', {
      engineIds: engineIds.join(', '),
    })
  }
}

/** Its end would be good news for the consumer; a part that is closing is none whatever it ends with. */
const mustEnd = ({ state }: PartRecord): boolean =>
  state.kind === 'writing' || state.kind === 'rewinding'
