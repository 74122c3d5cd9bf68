/**
 * One engine step, with the connector's hooks in vLLM's order (the worker half sees exactly this):
 * handlePreemptions, bind (before the launch when hooks are additive, after it otherwise), waitForSave with
 * the fence of this forward, then, when the modelled time is over, getTransferResults. Runs on the core's
 * thread; never starts two steps at once, and never decides whether a step is due (`engine-core.ts`).
 */
import type {
  BlockIds,
  Clock,
  ConnectorScheduler,
  LoadSample,
  RequestId,
  WorkerOutput,
} from '@kvferry/connector-api'
import { engineLimits } from '../limits.ts'
import { modelStepMs, type TimePreset } from '../time-model.ts'
import type { Forward, ForwardResult } from './forward.ts'
import type { HookStopwatch } from './hook-stopwatch.ts'
import type { Lifecycle } from './lifecycle.ts'
import type { EngineWorker } from './rank-group.ts'
import type { Scheduler, StepPlan } from './scheduler.ts'
import type { StepAccounts } from './step-accounts.ts'
import { waitUntil, type PauseThread } from './step-end.ts'

export type HookPlacement = 'additive' | 'after-launch'

/** The connector's scheduler half, and the worker halves of all ranks as one. */
export interface AttachedConnector {
  readonly scheduler: ConnectorScheduler
  readonly worker: EngineWorker
}

export interface StepRunnerParts {
  readonly clock: Clock
  readonly pause: PauseThread | null
  readonly hooks: HookPlacement
  readonly timePreset: TimePreset
  readonly timeScale: number
  readonly scheduler: Scheduler
  readonly lifecycle: Lifecycle
  readonly forward: Forward
  readonly connector: AttachedConnector | null
  readonly watch: HookStopwatch
  readonly accounts: StepAccounts
  onLoadSamples(samples: readonly LoadSample[]): void
  onCounters(counters: Readonly<Record<string, number>>): void
}

export interface StepOutcome {
  /** Something changed, so another step may find more to do. */
  readonly isProgress: boolean
  /** The connector wants to be asked again about a waiting request. */
  readonly isRetryNeeded: boolean
}

interface ForwardTimes {
  readonly workMs: number
  readonly modelledMs: number
  readonly modelledEndMs: number
  readonly timerLateMs: number
  /** Time in hooks beyond the end of the forward that should have hidden them. */
  readonly exposedHookMs: number
}

const noWork: ForwardResult = { sampled: [], wrongBlocks: [], corrupted: new Set() }
const noBlockIds: BlockIds = [new Uint32Array()]
const emptyOutput: WorkerOutput = { sent: [], received: [], failed: [] }

export class StepRunner {
  readonly #parts: StepRunnerParts
  #carriedLateMs = 0

  constructor(parts: StepRunnerParts) {
    this.#parts = parts
  }

  /** The engine slept: its next step starts when it starts. */
  forgetLateness(): void {
    this.#carriedLateMs = 0
  }

  async run(): Promise<StepOutcome> {
    const { lifecycle, scheduler, watch, accounts } = this.#parts
    const ended = lifecycle.takeEnded()
    const plan = scheduler.schedule()
    const meta = this.#buildMeta(plan)
    const connector = this.#parts.connector
    if (connector !== null && meta !== null) {
      await connector.worker.handlePreemptions(meta)
      if (this.#parts.hooks === 'additive') connector.worker.bindConnectorMetadata(meta)
    }
    const hooksBeforeMs = watch.elapsedMs
    const { result, times } = await this.#runForward(plan, meta)
    const hooksInsideMs = watch.elapsedMs - hooksBeforeMs
    const output = this.#collect(ended)
    lifecycle.distrust(result.wrongBlocks)
    for (const request of result.corrupted) lifecycle.failCorrupted(request)
    lifecycle.applyStep(plan.chunks, result.sampled, times.modelledEndMs)
    lifecycle.applyWorkerOutput(output)
    const hookMs = watch.take()
    const isStalling = plan.chunks.length > 0
    accounts.record({
      ...times,
      hookMs,
      stallMs: isStalling ? hookMs - hooksInsideMs + times.exposedHookMs : 0,
    })
    return { isProgress: didProgress(plan, output), isRetryNeeded: plan.isRetryNeeded }
  }

  #buildMeta(plan: StepPlan): Uint8Array | null {
    const { connector } = this.#parts
    if (connector === null) return null
    return connector.scheduler.buildConnectorMeta({
      stepIndex: plan.stepIndex,
      scheduled: plan.chunks.map(({ request, end, newBlocks }) => ({
        requestId: request.requestId,
        computedTokenCountAfter: end,
        newBlockIds: newBlocks.length === 0 ? noBlockIds : [Uint32Array.from(newBlocks)],
      })),
      preemptedRequestIds: plan.preemptedRequestIds,
    })
  }

  async #runForward(
    plan: StepPlan,
    meta: Uint8Array | null,
  ): Promise<{ result: ForwardResult; times: ForwardTimes }> {
    const { clock, pause, connector, forward, timePreset, timeScale, watch } = this.#parts
    const hasForward = plan.chunks.length > 0
    const modelledMs = modelStepMs(timePreset, plan.chunks, timeScale)
    const launchedAtMs = clock.now()
    const startMs = hasForward ? launchedAtMs - this.#carriedLateMs : launchedAtMs
    const work = hasForward ? forward.run(plan.chunks) : Promise.resolve(noWork)
    const hooksBeforeMs = watch.elapsedMs
    const fences = hasForward && connector !== null ? connector.worker.createFences() : null
    if (connector !== null && meta !== null) {
      if (this.#parts.hooks === 'after-launch') connector.worker.bindConnectorMetadata(meta)
      connector.worker.waitForSave(fences)
    }
    const hooksMs = watch.elapsedMs - hooksBeforeMs
    const hooksEndMs = clock.now()
    // A connector asks for a prompt's digest at its end, when somebody waits for the answer. Now nobody does.
    if (connector !== null) for (const { request } of plan.chunks) void request.promptDigest
    const result = await work
    const workEndMs = clock.now()
    const modelledEndMs = startMs + modelledMs
    // As a device's event does: at the forward's end, whether this thread is awake then or not.
    if (fences !== null)
      connector?.worker.signalFences(fences, Math.max(0, modelledEndMs - workEndMs))
    await waitUntil(clock, modelledEndMs, pause)
    const timerLateMs = Math.max(0, clock.now() - Math.max(modelledEndMs, workEndMs))
    this.#carriedLateMs = Math.min(timerLateMs, engineLimits.timerLatenessCarriedMsMax)
    const times = {
      // While the thread was in a hook it could not have noticed the end of the work.
      workMs: hasForward ? workEndMs - launchedAtMs - hooksMs : 0,
      modelledMs,
      modelledEndMs,
      timerLateMs: hasForward ? timerLateMs : 0,
      exposedHookMs: Math.min(hooksMs, Math.max(0, hooksEndMs - modelledEndMs)),
    }
    return { result, times }
  }

  #collect(ended: ReadonlySet<RequestId>): WorkerOutput {
    const { connector, onCounters, onLoadSamples } = this.#parts
    if (connector === null) return emptyOutput
    const output = connector.worker.getTransferResults(ended)
    const stats = connector.worker.getStats()
    if (stats !== null) {
      onLoadSamples(stats.loads)
      onCounters(stats.counters)
    }
    connector.scheduler.updateConnectorOutput(output)
    return output
  }
}

function didProgress(plan: StepPlan, output: WorkerOutput): boolean {
  return (
    plan.chunks.length > 0 ||
    plan.preemptedRequestIds.length > 0 ||
    output.received.length > 0 ||
    output.sent.length > 0 ||
    // A request that waited for the answer can be asked for again.
    (output.matched?.length ?? 0) > 0
  )
}
