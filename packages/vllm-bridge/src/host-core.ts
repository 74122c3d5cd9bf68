/**
 * Drives the connector's two halves as an engine would: each of vLLM's steps is played on the scheduler
 * half, whose metadata goes straight to the worker half; what ended goes back to the shim as soon as the
 * worker half says so, not a step later. When the connector asks for a step and vLLM sends none, the core
 * makes one of its own, but not while a forward runs whose tokens are to leave. One step at a time, in the
 * order of arrival. Owned by host.ts.
 */
import {
  asRequestId,
  type Clock,
  type ConnectorScheduler,
  type ConnectorWorker,
  type Logger,
  type RequestId,
  type Timer,
  type TransferAgent,
} from '@kvferry/connector-api'
import type { EngineClock } from './engine-clock.ts'
import { HookReplay, type ReplayOutcome } from './hook-replay.ts'
import { bridgeLimits } from './limits.ts'
import type { FailureReport, HostMessage, StepMessage } from './messages.ts'

export interface HostCoreParts {
  readonly clock: Clock
  readonly logger: Logger
  readonly scheduler: ConnectorScheduler
  /** The scheduler half's. */
  readonly engineClock: EngineClock
  readonly worker: ConnectorWorker
  readonly agent: TransferAgent
  send(message: HostMessage): void
  /** A broken invariant: the host must end. */
  onBroken(error: Error): void
}

/** A step that vLLM did not send. */
const ownStep: Omit<StepMessage, 'index'> = {
  t: 'step',
  scheduled: [],
  preempted: [],
  events: [],
  settle: false,
  save: false,
}

export class HostCore {
  readonly #parts: HostCoreParts
  readonly #replay: HookReplay
  #queue: Promise<void> = Promise.resolve()
  #isWakeQueued = false
  /** The forward of a step runs, and what it computes is to leave when it has ended. */
  #isForwardRunning = false
  /** A step of its own that was wanted meanwhile. */
  #isWakeHeldBack = false
  #isClosed = false
  #timer: Timer | null = null
  #stepIndex = 0
  #steps = 0
  #latestCounters: Readonly<Record<string, number>> = {}

  constructor(parts: HostCoreParts) {
    this.#parts = parts
    this.#replay = new HookReplay(parts.scheduler, parts.engineClock, parts.logger)
  }

  /** One step of vLLM's. */
  step(message: StepMessage): void {
    this.#enqueue(async () => {
      // A shim whose hook failed may have kept this to itself, but the engine's forwards don't overlap.
      this.#endForward()
      await this.#run(message)
    })
  }

  /** The forward of the last step, which said `save`, has ended. */
  saved(): void {
    this.#enqueue(async () => this.#endForward())
  }

  /** Resolves when every step that arrived is played. */
  played(): Promise<void> {
    return this.#queue
  }

  /** The connector wants a step. Safe to call often, from any event. */
  requestStep(): void {
    if (this.#isWakeQueued || this.#isClosed) return
    this.#isWakeQueued = true
    this.#enqueue(async () => {
      // A step has one forward, and this one would seem to have ended.
      this.#isWakeHeldBack = this.#isForwardRunning
      if (!this.#isWakeHeldBack) await this.#run({ ...ownStep, index: this.#stepIndex })
    })
  }

  /** Totals since the start: this host's, the connector's, the agent's. */
  counters(): Readonly<Record<string, number>> {
    this.#drainStats()
    const { events, divergences } = this.#replay
    const { transfersDone, transfersFailed, transfersOpen, bytesMoved } =
      this.#parts.agent.counters()
    const agent = { transfersDone, transfersFailed, transfersOpen, bytesMoved }
    return { ...this.#latestCounters, ...agent, steps: this.#steps, events, divergences }
  }

  /** No further step begins. Idempotent. */
  async close(): Promise<void> {
    this.#isClosed = true
    this.#timer?.stop()
    await this.#queue
  }

  #enqueue(run: () => Promise<void>): void {
    this.#queue = this.#queue.then(async () => {
      if (this.#isClosed) return
      try {
        await run()
      } catch (error) {
        this.#isClosed = true
        this.#parts.onBroken(error instanceof Error ? error : new Error(String(error)))
      }
    })
  }

  async #run(message: StepMessage): Promise<void> {
    const { scheduler, worker, send } = this.#parts
    this.#isWakeQueued = false
    this.#stepIndex = message.index
    this.#steps++
    const outcome = this.#replay.play(message.events)
    const meta = scheduler.buildConnectorMeta({
      stepIndex: message.index,
      scheduled: message.scheduled.map(({ id, computed, blocks }) => ({
        requestId: asRequestId(id),
        computedTokenCountAfter: computed,
        newBlockIds: blocks.map((group) => Uint32Array.from(group)),
      })),
      preemptedRequestIds: message.preempted.map(asRequestId),
    })
    await worker.handlePreemptions(meta)
    if (message.settle) send({ t: 'settled' })
    worker.bindConnectorMetadata(meta)
    this.#isForwardRunning = message.save
    if (!message.save) worker.waitForSave(null)
    this.#report(outcome)
    this.#watchOpenWork()
  }

  /** On a CPU a forward that has ended is computed: there is no fence to wait for. */
  #endForward(): void {
    if (!this.#isForwardRunning) return
    this.#isForwardRunning = false
    this.#parts.worker.waitForSave(null)
    if (!this.#isWakeHeldBack) return
    this.#isWakeHeldBack = false
    this.#isWakeQueued = false
    this.requestStep()
  }

  #report({ failed, sent, finished }: ReplayOutcome): void {
    const output = this.#parts.worker.getTransferResults(finished as ReadonlySet<RequestId>)
    const { matched = [] } = output
    for (const failure of output.failed) this.#replay.noteFailure(failure)
    const failures: FailureReport[] = output.failed.map(({ requestId, error }) => ({
      id: requestId,
      code: error.code,
      message: error.message,
    }))
    failures.push(...failed)
    const message = {
      t: 'results' as const,
      sent: [...output.sent, ...sent],
      received: [...output.received, ...failed.map(({ id }) => id)],
      failed: failures,
      matched: matched.map(({ requestId: id, question, blockCount: blocks }) => ({
        ...{ id, question, blocks },
      })),
    }
    const count = message.sent.length + message.received.length + message.matched.length
    if (count > 0) this.#parts.send(message)
    this.#drainStats()
  }

  /** vLLM's own steps carry nothing while it waits for us, so the shim sends none. */
  #watchOpenWork(): void {
    const { clock, scheduler } = this.#parts
    if (this.#timer !== null) return
    if (!scheduler.hasPendingBlockFrees() && !scheduler.hasPendingPushWork()) return
    this.#timer = clock.after(bridgeLimits.idleStepIntervalMs, () => {
      this.#timer = null
      this.requestStep()
    })
  }

  #drainStats(): void {
    const stats = this.#parts.worker.getStats()
    if (stats !== null) this.#latestCounters = stats.counters
  }
}
