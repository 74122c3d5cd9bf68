/**
 * Books of the step loop: modelled time against the work behind it, late timers, time in hooks. The
 * overrun says when the machine was too slow for the device it stands for, so that a measurement taken
 * then can be refused. Pure arithmetic over what the loop reports.
 */
import { DistributionRecorder, type Distribution } from './distribution.ts'

export interface StepRecord {
  /** 0 for a step without tokens. */
  readonly modelledMs: number
  /** Launch to end of the kernels, as the wall clock has it. */
  readonly workMs: number
  /** How late the timer of the modelled end fired, after modelled end and work. */
  readonly timerLateMs: number
  /** In hooks, all of them. */
  readonly hookMs: number
  /** In hooks, and not hidden behind the modelled forward. */
  readonly stallMs: number
}

export interface StepTotals {
  readonly steps: number
  readonly workMs: number
  readonly modelledMs: number
  readonly overrunMs: number
  readonly timerLateMs: number
  readonly stepStallMs: number
  readonly hookUsPerStep: Distribution
}

export class StepAccounts {
  readonly #hookUs = new DistributionRecorder()
  #steps = 0
  #workMs = 0
  #modelledMs = 0
  #overrunMs = 0
  #timerLateMs = 0
  #stallMs = 0

  record(step: StepRecord): void {
    this.#steps++
    this.#workMs += step.workMs
    this.#modelledMs += step.modelledMs
    this.#overrunMs += Math.max(0, step.workMs - step.modelledMs)
    this.#timerLateMs += step.timerLateMs
    this.#stallMs += step.stallMs
    this.#hookUs.record(step.hookMs * 1_000)
  }

  totals(): StepTotals {
    return {
      steps: this.#steps,
      workMs: this.#workMs,
      modelledMs: this.#modelledMs,
      overrunMs: this.#overrunMs,
      timerLateMs: this.#timerLateMs,
      stepStallMs: this.#stallMs,
      hookUsPerStep: this.#hookUs.snapshot(),
    }
  }
}
