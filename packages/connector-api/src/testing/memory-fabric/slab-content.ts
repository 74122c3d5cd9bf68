/**
 * One slab of a transfer that travels by slabs. Its source is read at one moment, when it is filled; its
 * bytes appear at the other side later, page by page in random order. A slab that a WRITE has handed over
 * is the target's: it goes on appearing although the initiator has died, unless the target is told so.
 */
import type { AgentProcess } from './agent-process.ts'
import type { FabricCore, Reconsidered } from './fabric-core.ts'
import type { TransferPlan } from './transfer-plan.ts'

/** Longest pause before the next part of a slab that was left behind appears. */
const leftBehindDelayMs = 200

/** A part of a plan's piece. */
export interface Copy {
  readonly piece: number
  readonly offset: number
  readonly length: number
}

export interface SlabContentOptions {
  readonly core: FabricCore
  readonly direction: 'read' | 'write'
  readonly plan: TransferPlan
  readonly initiator: AgentProcess
  readonly target: AgentProcess
  readonly copies: readonly Copy[]
}

export class SlabContent implements Reconsidered {
  readonly #init: SlabContentOptions
  readonly #bytes: (Uint8Array | null)[]
  #placed = 0

  /** Fills it: the source may change from now on. */
  constructor(init: SlabContentOptions) {
    this.#init = init
    const { plan, direction, copies, core } = init
    const addresses = direction === 'read' ? plan.remoteAddresses : plan.localAddresses
    this.#bytes = copies.map(({ piece, offset, length }) => {
      const address = addresses[piece]! + offset
      const source = core.space.resolve(address, length)
      const start = source === undefined ? 0 : address - source.address
      return source?.bytes.slice(start, start + length) ?? null
    })
    init.target.slabsLent += 1
  }

  get initiator(): AgentProcess {
    return this.#init.initiator
  }

  get target(): AgentProcess {
    return this.#init.target
  }

  get direction(): 'read' | 'write' {
    return this.#init.direction
  }

  get isEmpty(): boolean {
    return this.#placed === this.#bytes.length
  }

  /** Addresses that it may still write. */
  writes(start: number, end: number): boolean {
    return this.#init.copies.slice(this.#placed).some((copy) => {
      const address = this.#addressOf(copy)
      return address < end && start < address + copy.length
    })
  }

  /** The next part appears. False: its memory isn't there any more. */
  place(): boolean {
    const copy = this.#init.copies[this.#placed]!
    const bytes = this.#bytes[this.#placed]
    const address = this.#addressOf(copy)
    const destination = this.#init.core.space.resolve(address, copy.length)
    if (destination === undefined || bytes === null || bytes === undefined) return false
    destination.bytes.set(bytes, address - destination.address)
    this.#placed += 1
    if (this.isEmpty) this.#end()
    return true
  }

  /** The initiator is gone: what it handed over by a WRITE is the target's. */
  leaveBehind(): void {
    const { core, target, direction } = this.#init
    if (direction === 'read' || this.isEmpty || target.isGone) return
    core.leftBehind.add(this)
    this.reconsider()
  }

  reconsider(): void {
    const { core, target } = this.#init
    core.waiting.delete(this)
    if (!core.leftBehind.has(this)) return
    if (target.isGone) return this.drop()
    if (!target.isPolling) {
      core.waiting.add(this)
      return
    }
    // The target's agent takes it up when it comes to it: nobody waits for it any more.
    core.clock.after(leftBehindDelayMs * core.random.uniform(), () => {
      if (!core.leftBehind.has(this)) return
      if (!target.isPolling) core.waiting.add(this)
      else if (!this.place()) this.drop()
      else if (!this.isEmpty) this.reconsider()
    })
  }

  /** It never appears. */
  drop(): void {
    if (!this.isEmpty) this.#end()
    this.#placed = this.#bytes.length
  }

  #end(): void {
    const { core, initiator, target } = this.#init
    target.slabsLent -= 1
    target.slabsMoved += 1
    initiator.slabsMoved += 1
    core.leftBehind.delete(this)
    core.waiting.delete(this)
  }

  #addressOf({ piece, offset }: Copy): number {
    const { plan, direction } = this.#init
    const addresses = direction === 'read' ? plan.localAddresses : plan.remoteAddresses
    return addresses[piece]! + offset
  }
}
