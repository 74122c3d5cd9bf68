/**
 * What all agents of one fabric share: clock, randomness, address space, the agents themselves, and
 * the network between them. Transfers that can't move (their target is stopped or doesn't poll) wait
 * here and are looked at again when something changed, so that an idle fabric sets no timers.
 */
import type { Clock } from '../../clock.ts'
import type { ProcessIdentity } from '../../processes.ts'
import type { Random } from '../../random.ts'
import type { AgentProcess } from './agent-process.ts'
import type { AddressSpace } from './memory.ts'
import type { SlabContent } from './slab-content.ts'
import type { Transfer } from './transfer.ts'

export interface FabricTimes {
  /** One way, for a transfer's first byte, its status, and a notification. */
  readonly latencyMs: number
  /** Of each transfer by itself; links are not shared out. */
  readonly bandwidthBytesPerMs: number
  /** The agent's thread takes work up after at most this. */
  readonly agentDelayMs: number
  /** Listeners hear after at most this. */
  readonly deliveryDelayMs: number
  /** A unit of copying: a reader may see one new and its neighbour old. */
  readonly pageSizeBytes: number
  /** Transfers move only while their target polls, as over TCP. */
  readonly isTargetPollingNeeded: boolean
}

/** Chances are 0 … 1. All zero: every notification arrives once. */
export interface NotificationFaults {
  lossChance: number
  duplicateChance: number
  extraDelayMs: number
}

/** Something that waits for a change of its agents' lives. */
export interface Reconsidered {
  reconsider(): void
}

const isSameProcess = (a: ProcessIdentity | null, b: ProcessIdentity): boolean =>
  a !== null && a.machineId === b.machineId && a.pid === b.pid && a.startTime === b.startTime

/** A notification that is on its way when its sender dies arrives, or not. */
const lossWithSenderChance = 0.5

export class FabricCore {
  readonly clock: Clock
  readonly random: Random
  readonly space: AddressSpace
  readonly options: FabricTimes
  readonly notificationFaults: NotificationFaults = {
    lossChance: 0,
    duplicateChance: 0,
    extraDelayMs: 0,
  }
  /** By instance; the dead stay known, since peers hold their metadata. */
  readonly processes = new Map<number, AgentProcess>()
  readonly waiting = new Set<Reconsidered>()
  /** Every transfer of a living initiator without final status. */
  readonly open = new Set<Transfer>()
  /** Slabs that were handed over by initiators that died since: their targets go on with them. */
  readonly leftBehind = new Set<SlabContent>()
  #isReconsiderSet = false

  constructor(options: { clock: Clock; random: Random; space: AddressSpace; times: FabricTimes }) {
    this.clock = options.clock
    this.random = options.random
    this.space = options.space
    this.options = options.times
  }

  /** Sends a notification; it arrives once, unless faults say otherwise. */
  send(from: AgentProcess, to: AgentProcess, message: Uint8Array): void {
    const faults = this.notificationFaults
    const isDuplicated = this.random.uniform() < faults.duplicateChance
    for (let copy = 0; copy < (isDuplicated ? 2 : 1); copy += 1) {
      const delayMs = this.options.latencyMs * (1 + this.random.uniform())
      this.clock.after(delayMs + faults.extraDelayMs * this.random.uniform(), () => {
        const isSenderDead = from.life === 'killed'
        const lossChance = isSenderDead ? lossWithSenderChance : faults.lossChance
        if (this.random.uniform() < lossChance) return
        to.receive({ from: from.name, message: message.slice() })
      })
    }
  }

  /** What that process left in slabs of this agent is dropped. */
  processEnded(target: AgentProcess, ended: ProcessIdentity): void {
    for (const slab of [...this.leftBehind]) {
      if (slab.target === target && isSameProcess(slab.initiator.identity, ended)) slab.drop()
    }
  }

  /** Looks at all waiting transfers again, soon: callers may be in the middle of a change. */
  reconsider(): void {
    if (this.#isReconsiderSet || this.waiting.size === 0) return
    this.#isReconsiderSet = true
    this.clock.after(0, () => {
      this.#isReconsiderSet = false
      for (const waiting of [...this.waiting]) waiting.reconsider()
    })
  }
}
