/**
 * The engine core: takes requests, steps while there is something to do, sleeps otherwise, and tells the
 * outside once a step what happened. Owns the loop and the order of start and end; the rules are in
 * `scheduler.ts` and `lifecycle.ts`. One per engine, on one thread; nothing in it is re-entrant, because
 * commands wait for the next step boundary.
 */
import { asRequestId, ConnectorError } from '@kvferry/connector-api'
import type { Clock, ConnectorScheduler, EngineId } from '@kvferry/connector-api'
import { engineLimits } from '../limits.ts'
import type { CoreEvent, CoreListener, CoreSubmit } from './core-messages.ts'
import { turnOfEventLoop } from './event-loop.ts'
import type { Lifecycle } from './lifecycle.ts'
import { EngineRequest, type BlockKeyer } from './request-state.ts'
import type { RequestTable } from './request-table.ts'
import type { StepRunner } from './step-runner.ts'
import { describeTimings } from './timings.ts'

type Command =
  | { readonly kind: 'submit'; readonly request: EngineRequest }
  | { readonly kind: 'abort'; readonly requestId: string }

export interface EngineCoreParts {
  readonly engineId: EngineId
  readonly clock: Clock
  readonly table: RequestTable
  readonly lifecycle: Lifecycle
  readonly stepRunner: StepRunner
  readonly connector: ConnectorScheduler | null
  readonly events: EventBuffer
  readonly listener: CoreListener
  readonly keyer: BlockKeyer
}

/** Events of the step in progress: the lifecycle writes, the loop sends them out when the step is over. */
export class EventBuffer {
  #events: CoreEvent[] = []

  push(event: CoreEvent): void {
    this.#events.push(event)
  }

  take(): readonly CoreEvent[] {
    const events = this.#events
    this.#events = []
    return events
  }
}

export class EngineCore {
  readonly #parts: EngineCoreParts
  #commands: Command[] = []
  #isWakeRequested = false
  #isStepping = false
  #isStopping = false
  #wake: (() => void) | null = null
  #openCount = 0
  #onDrained: (() => void) | null = null
  #loopEnd: Promise<void> | null = null

  constructor(parts: EngineCoreParts) {
    this.#parts = parts
  }

  /** Begins to step. Called once. */
  start(): void {
    this.#loopEnd = this.#loop().catch((error: unknown) => {
      this.#isStopping = true
      this.#parts.listener.onFatal(error instanceof Error ? error : new Error(String(error)))
    })
  }

  /** Made ready at once, which is work for a thread that mostly waits for a forward; added with the next step. */
  submit(submit: CoreSubmit): void {
    const { clock, connector, keyer } = this.#parts
    const input = { ...submit, requestId: asRequestId(submit.requestId) }
    const request = new EngineRequest(input, clock.now(), keyer)
    if (this.#isStepping && connector !== null) void request.promptDigest
    this.#openCount++
    this.#commands.push({ kind: 'submit', request })
    this.requestStep()
  }

  abort(requestId: string): void {
    this.#commands.push({ kind: 'abort', requestId })
    this.requestStep()
  }

  /** Wakes a sleeping loop; during a step, asks for another one. */
  requestStep(): void {
    this.#isWakeRequested = true
    this.#wake?.()
  }

  /**
   * Lets open requests end, aborts what is left at the deadline, and stops stepping. Idempotent.
   */
  async stop(options: { readonly deadlineMs: number }): Promise<void> {
    if (!this.#isStopping && this.#openCount > 0) {
      await this.#drain(options.deadlineMs)
    }
    this.#isStopping = true
    this.requestStep()
    await this.#loopEnd
  }

  async #drain(deadlineMs: number): Promise<void> {
    const { clock, table } = this.#parts
    const isDrained = await new Promise<boolean>((resolve) => {
      const timer = clock.after(deadlineMs, () => resolve(false))
      this.#onDrained = () => {
        timer.stop()
        resolve(true)
      }
    })
    if (isDrained) return
    this.#onDrained = null
    for (const request of table.all()) {
      if (!request.isAnswered) this.abort(request.requestId)
    }
    // The loop applies the aborts in its next step, and looks at `#isStopping` only after that.
  }

  async #loop(): Promise<void> {
    const { stepRunner } = this.#parts
    let isDue = false
    let isRetryNeeded = false
    for (;;) {
      if (!isDue && !this.#isWakeRequested) {
        if (this.#isStopping) return
        await this.#sleep(isRetryNeeded)
        stepRunner.forgetLateness()
      }
      this.#isWakeRequested = false
      this.#applyCommands()
      this.#isStepping = true
      const outcome = await stepRunner.run()
      this.#isStepping = false
      this.#flush()
      isRetryNeeded = outcome.isRetryNeeded
      isDue = this.#parts.lifecycle.hasEnded || (outcome.isProgress && this.#hasRunnable())
      if (this.#isStopping && this.#openCount === 0) return
      // Lets messages in between two steps; the loop must not starve its own thread.
      await turnOfEventLoop()
    }
  }

  #hasRunnable(): boolean {
    const { running, endedLoads, waiting } = this.#parts.table
    return running.length + endedLoads.length + waiting.length > 0
  }

  /** Until something happens; while the connector has something open, not longer than one interval. */
  async #sleep(isRetryNeeded: boolean): Promise<void> {
    const { clock, connector, table } = this.#parts
    const isExpecting =
      isRetryNeeded ||
      table.size > 0 ||
      connector?.hasPendingPushWork() === true ||
      connector?.hasPendingBlockFrees() === true
    await new Promise<void>((resolve) => {
      const timer = isExpecting
        ? clock.after(engineLimits.idleStepIntervalMs, () => this.requestStep())
        : null
      this.#wake = () => {
        timer?.stop()
        resolve()
      }
    })
    this.#wake = null
  }

  #applyCommands(): void {
    const commands = this.#commands
    this.#commands = []
    const { clock, lifecycle } = this.#parts
    for (const command of commands) {
      if (command.kind === 'abort') {
        lifecycle.abort(asRequestId(command.requestId))
        continue
      }
      const { request } = command
      request.queuedAtMs = clock.now()
      if (this.#isStopping) this.#refuse(request)
      else lifecycle.add(request)
    }
  }

  /** Arrived after the end began. */
  #refuse(request: EngineRequest): void {
    request.finishReason = 'failed'
    const error = new ConnectorError('ERR_KV_CLOSED', 'the engine is ending', { what: 'engine' })
    this.#parts.events.push({
      kind: 'end',
      requestId: request.requestId,
      finishReason: 'error',
      error: { code: error.code, message: error.message },
      kvTransferParams: null,
      timings: describeTimings(this.#parts.engineId, request),
    })
  }

  #flush(): void {
    const events = this.#parts.events.take()
    if (events.length === 0) return
    for (const event of events) if (event.kind === 'end') this.#openCount--
    this.#parts.listener.onEvents(events)
    if (this.#openCount === 0) this.#onDrained?.()
  }
}
