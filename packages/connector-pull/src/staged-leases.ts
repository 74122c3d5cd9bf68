/**
 * The producer's leases whose blocks are first copied to host memory: a reader that asks before the copy is
 * there is answered when it is. Owned by producer-worker.ts, only with host staging.
 */
import type { Clock, RequestId } from '@kvferry/connector-api'
import type { HostStaging } from '@kvferry/connector-api/protocol'
import { pullLimits } from './limits.ts'

interface StagedLease {
  readonly isSaved: Promise<boolean>
  readonly settle: (isSaved: boolean) => void
}

export class StagedLeases {
  readonly #staging: HostStaging
  readonly #clock: Clock
  /** From the first word of a request to the end of its lease. */
  readonly #leases = new Map<RequestId, StagedLease>()

  constructor(staging: HostStaging, clock: Clock) {
    this.#staging = staging
    this.#clock = clock
  }

  /** Copies the blocks of a lease that is about to begin. */
  save(requestId: RequestId, blockIds: Uint32Array): void {
    const { settle } = this.#of(requestId)
    void this.#staging.save(blockIds).then((error) => settle(error === null))
  }

  /** The lease has ended, or never began. */
  end(requestId: RequestId): void {
    this.#leases.get(requestId)?.settle(false)
    this.#leases.delete(requestId)
  }

  /** Whether its blocks can be read from the copy; false too when that isn't known in time. */
  async isReadable(requestId: RequestId): Promise<boolean> {
    const { isSaved } = this.#of(requestId)
    return new Promise((resolve) => {
      const timer = this.#clock.after(pullLimits.stagingAnswerMs, () => resolve(false))
      void isSaved.then((saved) => {
        timer.stop()
        resolve(saved)
      })
    })
  }

  close(): void {
    for (const requestId of [...this.#leases.keys()]) this.end(requestId)
  }

  #of(requestId: RequestId): StagedLease {
    const known = this.#leases.get(requestId)
    if (known !== undefined) return known
    let settle: (isSaved: boolean) => void = () => {}
    const isSaved = new Promise<boolean>((resolve) => {
      settle = resolve
    })
    const lease: StagedLease = { isSaved, settle }
    this.#leases.set(requestId, lease)
    return lease
  }
}
