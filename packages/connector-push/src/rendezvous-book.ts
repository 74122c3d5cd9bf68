/**
 * The transfers that a producer rank knows, and for how long: what is over is remembered for a while, so
 * that what comes late is refused by name. Bounded. Owned by rendezvous-table.ts.
 */
import { limits, type Clock } from '@kvferry/connector-api'
import { protocolLimits } from '@kvferry/connector-api/protocol'
import { pushLimits } from './limits.ts'
import { isOpen } from '@kvferry/connector-api/remote-writes'
import { createRendezvous, type PartRecord, type Rendezvous } from './rendezvous.ts'

/** One running and one remembered for each request that there may be. */
export const rendezvousCountMax = 2 * limits.requestCountMax

export class RendezvousBook {
  readonly #clock: Clock
  readonly #meetings = new Map<string, Rendezvous>()
  /** Those that are only remembered, the one that has been over for longest first. */
  readonly #remembered = new Set<Rendezvous>()
  #isClosed = false

  constructor(clock: Clock) {
    this.#clock = clock
  }

  get size(): number {
    return this.#meetings.size
  }

  get parts(): PartRecord[] {
    return [...this.#meetings.values()].flatMap(({ parts }) => [...parts.values()])
  }

  find(transferId: string): Rendezvous | undefined {
    return this.#meetings.get(transferId)
  }

  /** False when no further transfer can be known. For one that can, what has been over for longest is forgotten. */
  makeRoom(): boolean {
    if (this.#meetings.size < rendezvousCountMax) return true
    for (const meeting of this.#remembered) {
      this.#remembered.delete(meeting)
      if (!isDispensable(meeting)) continue
      this.#forget(meeting)
      return true
    }
    return false
  }

  /** Makes it when it is new. */
  open(transferId: string): Rendezvous {
    const known = this.#meetings.get(transferId)
    if (known !== undefined) return known
    this.makeRoom()
    const meeting = createRendezvous(transferId)
    this.#meetings.set(transferId, meeting)
    return meeting
  }

  /**
   * A registration that its withdrawal overtook must not be taken on. False when there is no room to
   * remember that: then nothing may be promised.
   */
  refuseLater(transferId: string, key: string): boolean {
    // Nothing is taken on any more.
    if (this.#isClosed) return true
    if (this.#meetings.get(transferId) === undefined && !this.makeRoom()) return false
    const meeting = this.open(transferId)
    const { withdrawn } = meeting
    // One of each rank of the consumer: more are of one that has lost count.
    if (withdrawn.size >= protocolLimits.tpSizeMax && !withdrawn.has(key)) return false
    withdrawn.add(key)
    if (meeting.source === null) this.forgetLater(meeting)
    return true
  }

  /** Remembered for as long as somebody may come late. */
  forgetLater(meeting: Rendezvous): void {
    meeting.retention?.stop()
    if (this.#isClosed) return
    this.#remembered.delete(meeting)
    this.#remembered.add(meeting)
    meeting.retention = this.#clock.after(pushLimits.rendezvousRetentionMs, () => {
      const isBusy = [...meeting.parts.values()].some(isOpen)
      if (isBusy) this.forgetLater(meeting)
      else this.#forget(meeting)
    })
  }

  /** Leaves no timer. What is open stays known: whoever withdraws it must hear that a WRITE is open. */
  close(): void {
    this.#isClosed = true
    for (const { source, parts, retention } of this.#meetings.values()) {
      retention?.stop()
      source?.timer?.stop()
      for (const { silence } of parts.values()) silence?.stop()
    }
  }

  #forget(meeting: Rendezvous): void {
    meeting.retention?.stop()
    this.#remembered.delete(meeting)
    if (this.#meetings.get(meeting.transferId) !== meeting) return
    this.#meetings.delete(meeting.transferId)
  }
}

/** Nothing of it is open, and no consumer was promised that what it registers will be refused. */
function isDispensable({ source, over, parts, withdrawn }: Rendezvous): boolean {
  const isOver = source === null || over !== null
  return isOver && withdrawn.size === 0 && ![...parts.values()].some(isOpen)
}
