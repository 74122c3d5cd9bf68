/**
 * One transfer: queued, perhaps behind a fence, then moving page by page in random order over virtual
 * time, until its final status. What the initiator releases, deregisters or forgets meanwhile stops
 * nothing; only the end of the initiator does. Sources are read when their page moves, not before.
 */
import { ConnectorError } from '../../errors.ts'
import type { AnyConnectorError } from '../../errors.ts'
import type { Instant, Timer } from '../../clock.ts'
import type { AgentPath } from '../../slabs.ts'
import type { TransferCompletion, TransferHandle, TransferTimes } from '../../transfer-agent.ts'
import type { AgentProcess } from './agent-process.ts'
import type { FabricCore, Reconsidered } from './fabric-core.ts'
import { fabricLimits } from './fabric-limits.ts'
import { SlabContent } from './slab-content.ts'
import type { Copy } from './slab-content.ts'
import type { TransferPlan } from './transfer-plan.ts'
import type { AddressRange } from './wire.ts'

export interface TransferRequest {
  readonly direction: 'read' | 'write'
  readonly plan: TransferPlan
  readonly target: AgentProcess
  /** What the loaded metadata of the target lists. */
  readonly listed: readonly AddressRange[]
  readonly notification: Uint8Array | null
  readonly deadlineMs: number
  /** By `slabs` the target's agent takes part: slab after slab, each filled at one moment. */
  readonly path: AgentPath
  /** The agent lets go of what the transfer held. Before the completion is reported. */
  readonly onEnd: (transfer: Transfer, isDone: boolean) => void
}

/** Copies of one slab; a plan's are in random order, so that a slab has some of each region. */
const copiesPerSlab = 3

/** Cuts a plan into at most `copiesPerTransferMax` copies (or one per piece), in random order. */
function cut(plan: TransferPlan, core: FabricCore): Copy[] {
  const fewest = Math.ceil(plan.bytes / fabricLimits.copiesPerTransferMax)
  const size = Math.max(core.options.pageSizeBytes, fewest)
  const copies: Copy[] = []
  plan.lengths.forEach((length, piece) => {
    for (let offset = 0; offset < length; offset += size) {
      copies.push({ piece, offset, length: Math.min(size, length - offset) })
    }
  })
  for (let index = copies.length - 1; index > 0; index -= 1) {
    const other = Math.floor(core.random.uniform() * (index + 1))
    ;[copies[index], copies[other]] = [copies[other]!, copies[index]!]
  }
  return copies
}

export class Transfer implements Reconsidered {
  /** Set by the agent when it enters the transfer in its table. */
  handle = 0 as TransferHandle
  state: 'queued' | 'moving' | 'ended' = 'queued'
  readonly request: TransferRequest
  readonly #core: FabricCore
  readonly #initiator: AgentProcess
  readonly #enqueuedAt: Instant
  readonly #deadline: Timer
  #startedAt: Instant
  #copies: Copy[] = []
  #copied = 0
  #isOverdue = false
  #lastMoveAt: Instant
  /** Number of copies after which the transfer fails; null while it is to succeed. */
  #failAfter: number | null = null
  #failure: AnyConnectorError | null = null
  #slab: SlabContent | null = null
  #slabCount = 0

  constructor(core: FabricCore, initiator: AgentProcess, request: TransferRequest) {
    this.#core = core
    this.#initiator = initiator
    this.request = request
    this.#enqueuedAt = core.clock.now()
    this.#startedAt = this.#enqueuedAt
    this.#lastMoveAt = this.#enqueuedAt
    this.#deadline = core.clock.after(request.deadlineMs, () => this.#passDeadline())
    core.open.add(this)
  }

  get initiator(): AgentProcess {
    return this.#initiator
  }

  /** Hands it to the network. `isInline`: the caller waits, so all copies that can be made are made now. */
  start(isInline: boolean): void {
    if (this.state !== 'queued' || this.#initiator.isGone) return
    this.state = 'moving'
    this.#initiator.postCount += 1
    this.#startedAt = this.#core.clock.now()
    this.#lastMoveAt = this.#startedAt
    const unlisted = this.#findUnlisted()
    if (unlisted !== null) return this.#end(unlisted)
    this.#copies = cut(this.request.plan, this.#core)
    if (this.#initiator.failingPostCount > 0) {
      this.#initiator.failingPostCount -= 1
      this.#failSoon('failNextPosts')
    }
    if (this.request.target.isGone) {
      this.#failAfter = 0
      this.#failure = this.#transferFailed('peer is gone')
    }
    if (isInline && !this.#isBlocked()) this.#move(this.#copies.length)
    if (this.state === 'moving') this.#moveLater(this.#core.options.latencyMs)
  }

  /** The target's or the initiator's life changed. */
  reconsider(): void {
    if (this.state !== 'moving') {
      this.#core.waiting.delete(this)
      return
    }
    if (this.#isBlocked()) return
    this.#core.waiting.delete(this)
    this.#lastMoveAt = this.#core.clock.now()
    this.#moveLater(0)
  }

  /** The agent closes: what hasn't started never will. What moves goes on, as the real one does. */
  abandon(error: AnyConnectorError): void {
    if (this.state === 'queued') this.#end(error)
  }

  /** The initiator's process was killed: only this stops it. Nobody is left to hear of it. */
  vanish(): void {
    this.state = 'ended'
    this.#core.open.delete(this)
    this.#deadline.stop()
    this.#core.waiting.delete(this)
    this.#slab?.leaveBehind()
  }

  #isBlocked(): boolean {
    const { target } = this.request
    if (this.#initiator.life === 'stopped') return true
    if (target.isGone) return false
    if (target.isStalled || target.life === 'stopped') return true
    const isPollingNeeded = this.#bySlabs || this.#core.options.isTargetPollingNeeded
    return isPollingNeeded && !target.isPolling
  }

  get #bySlabs(): boolean {
    return this.request.path === 'slabs'
  }

  get #durationMs(): number {
    return this.request.plan.bytes / this.#core.options.bandwidthBytesPerMs
  }

  #moveLater(extraMs: number): void {
    const delayMs = extraMs + this.#durationMs / fabricLimits.wakeUpsPerTransfer
    this.#core.clock.after(delayMs, () => {
      if (this.state !== 'moving') return
      if (this.#isBlocked()) {
        this.#core.waiting.add(this)
        return
      }
      if (this.request.target.isGone && this.#failAfter === null) this.#failSoon('peer died')
      const now = this.#core.clock.now()
      const share = (now - this.#lastMoveAt) / this.#durationMs
      this.#lastMoveAt = now
      this.#move(Math.max(1, Math.floor(share * this.#copies.length)))
      if (this.state === 'moving') this.#moveLater(0)
    })
  }

  /** Goes on for a random part of what is left, then fails. */
  #failSoon(status: string): void {
    const left = this.#copies.length - this.#copied
    this.#failAfter = this.#copied + Math.floor(this.#core.random.uniform() * left)
    this.#failure = this.#transferFailed(status)
  }

  #move(count: number): void {
    const end = Math.min(this.#copied + count, this.#failAfter ?? this.#copies.length)
    for (; this.#copied < end; this.#copied += 1) {
      const copy = this.#copies[this.#copied]!
      if (this.#bySlabs ? this.#place() : this.#perform(copy)) continue
      return this.#end(this.#transferFailed('address is not mapped'))
    }
    if (this.#copied === this.#failAfter) this.#end(this.#failure)
    else if (this.#copied === this.#copies.length) this.#end(null)
  }

  #place(): boolean {
    if (this.#slab === null || this.#slab.isEmpty) {
      const { direction, plan, target } = this.request
      this.#slabCount += 1
      this.#slab = new SlabContent({
        ...{ core: this.#core, direction, plan, initiator: this.#initiator, target },
        copies: this.#copies.slice(this.#copied, this.#copied + copiesPerSlab),
      })
    }
    return this.#slab.place()
  }

  #perform({ piece, offset, length }: Copy): boolean {
    const { plan, direction } = this.request
    const { space } = this.#core
    const localAddress = plan.localAddresses[piece]! + offset
    const remoteAddress = plan.remoteAddresses[piece]! + offset
    const isRead = direction === 'read'
    const source = space.resolve(isRead ? remoteAddress : localAddress, length)
    const destination = space.resolve(isRead ? localAddress : remoteAddress, length)
    if (source === undefined || destination === undefined) return false
    const from = (isRead ? remoteAddress : localAddress) - source.address
    const to = (isRead ? localAddress : remoteAddress) - destination.address
    destination.bytes.set(source.bytes.subarray(from, from + length), to)
    return true
  }

  #passDeadline(): void {
    if (this.state === 'ended') return
    const { deadlineMs } = this.request
    const what = this.state === 'queued' ? 'transfer never started' : 'transfer has no final status'
    const error = new ConnectorError('ERR_KV_DEADLINE', `${what} after ${deadlineMs} ms`, {
      what,
      deadlineMs,
    }) as AnyConnectorError
    // What never started has touched nothing and never will: that is final.
    if (this.state === 'queued') return this.#end(error)
    this.#isOverdue = true
    this.#initiator.drainingTransferCount += 1
    this.#initiator.report({ transfer: this.handle, status: 'overdue', error })
  }

  #end(error: AnyConnectorError | null): void {
    const times = this.#times()
    this.state = 'ended'
    this.#core.open.delete(this)
    this.#deadline.stop()
    this.#core.waiting.delete(this)
    if (this.#isOverdue) this.#initiator.drainingTransferCount -= 1
    // Failed on the target's word: it puts nothing of it in place any more.
    this.#slab?.drop()
    this.request.onEnd(this, error === null)
    const { notification, target } = this.request
    if (error === null && notification !== null) {
      this.#core.send(this.#initiator, target, notification)
    }
    const completion: TransferCompletion =
      error === null
        ? { transfer: this.handle, status: 'done', times }
        : { transfer: this.handle, status: 'failed', times, error }
    this.#initiator.report(completion)
  }

  #times(): TransferTimes {
    const now = this.#core.clock.now()
    const hasStarted = this.state !== 'queued'
    const { plan, path, direction } = this.request
    // What a READ wants travels before it.
    const slabTransfers = this.#slabCount * (direction === 'read' ? 2 : 1)
    return {
      queuedUs: ((hasStarted ? this.#startedAt : now) - this.#enqueuedAt) * 1_000,
      prepareUs: 0,
      postUs: 0,
      wireUs: hasStarted ? (now - this.#startedAt) * 1_000 : 0,
      descriptorsBeforeMerge: plan.descriptorsBeforeMerge,
      descriptorsAfterMerge: {
        descriptors: plan.descriptorsAfterMerge,
        slabs: slabTransfers,
        ipc: 1,
      }[path],
      bytes: plan.bytes,
    }
  }

  #transferFailed(status: string): AnyConnectorError {
    const peer = this.request.target.name
    const operation = this.request.direction
    return new ConnectorError('ERR_KV_TRANSFER_FAILED', `${operation} with ${peer}: ${status}`, {
      operation,
      peer,
      status,
    }) as AnyConnectorError
  }

  #findUnlisted(): AnyConnectorError | null {
    const { plan, listed } = this.request
    const isListed = (address: number, length: number): boolean =>
      listed.some((range) => {
        const end = range.address + range.lengthBytes
        return range.address <= address && address + length <= end
      })
    const index = plan.remoteAddresses.findIndex(
      (address, piece) => !isListed(address, plan.lengths[piece]!),
    )
    if (index === -1) return null
    const details = { operation: 'create_xfer_req', status: 'remote memory is not registered' }
    return new ConnectorError('ERR_NIXL', details.status, details) as AnyConnectorError
  }
}
