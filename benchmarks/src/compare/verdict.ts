/**
 * Whether a comparison may be believed, and if not, why: the checks that make the command exit 1. Pure.
 */
import { missedTexts, noisyTexts, type Bar } from '../experiments/bar.ts'
import { percentText } from '../lib/percent-text.ts'
import { guard, limits } from '../limits.ts'
import type { CompareResult, RunEntry } from './result.ts'

/** Collects what is not good, each with the name of what it was seen at. */
export function createChecks(name: string): {
  readonly failures: string[]
  check(isGood: boolean, text: string): void
} {
  const failures: string[] = []
  const check = (isGood: boolean, text: string): void => {
    if (!isGood) failures.push(`${name}: ${text}`)
  }
  return { failures, check }
}

type Checked = Pick<
  RunEntry,
  | 'failed'
  | 'errors'
  | 'mismatchedBlocks'
  | 'bytesVerified'
  | 'blocksVerified'
  | 'blocksLoaded'
  | 'blocksHeldAtEnd'
>

/** What must hold of every run of every command. */
export function runChecks(run: Checked, name: string): string[] {
  const { failures, check } = createChecks(name)
  check(run.failed === 0, `${run.failed} requests failed; first: ${run.errors[0] ?? 'unknown'}`)
  check(run.mismatchedBlocks === 0, `${run.mismatchedBlocks} KV blocks held wrong bytes`)
  check(
    run.bytesVerified,
    run.blocksLoaded === 0
      ? 'no block was loaded: the connector moved nothing, so there is nothing to compare'
      : `not every byte was verified: ${run.blocksVerified} of ${run.blocksLoaded} loaded blocks`,
  )
  check(run.blocksHeldAtEnd === 0, `${run.blocksHeldAtEnd} blocks were not given back at the end`)
  return failures
}

function oracleChecks(run: RunEntry, oracle: RunEntry): string[] {
  const { failures, check } = createChecks(run.label)
  check(run.wrongTexts === 0, `${run.wrongTexts} outputs differ from the oracle's`)
  check(run.outputDigest === oracle.outputDigest, 'outputDigest differs from the oracle’s')
  return failures
}

function guardText(run: RunEntry): string {
  const worst = run.trials.flatMap(({ overrunShare }) => [
    overrunShare.producer ?? 0,
    overrunShare.consumer ?? 0,
  ])
  return (
    `${run.label}: outside the overrun guard (overrun ${percentText(Math.max(0, ...worst))}, limit ` +
    `${percentText(guard.overrunShareMax)}; CPU ${percentText(run.cpuBusy)}, limit ` +
    `${percentText(guard.cpuBusyMax)}): timings describe this machine, not the protocol`
  )
}

/**
 * Points outside the guard, and missed bars, fail a run that requires validity, and are warnings otherwise.
 * Bars that noise decides are warnings in any run. `failed`: what fails it in any case.
 */
export function verdictOf(
  runs: readonly RunEntry[],
  failed: readonly string[],
  bars: readonly Bar[],
  requiresValid: boolean,
): CompareResult['verdict'] {
  const doubtful = [...runs.filter((run) => !run.valid).map(guardText), ...missedTexts(bars)]
  const failures = requiresValid ? [...failed, ...doubtful] : failed
  return {
    ok: failures.length === 0,
    failures: failures.slice(0, limits.failuresMax),
    warnings: [...(requiresValid ? [] : doubtful), ...noisyTexts(bars)],
  }
}

/** @throws RangeError when `runs` has no oracle. */
export function judge(
  runs: readonly RunEntry[],
  bars: readonly Bar[],
  requiresValid: boolean,
): CompareResult['verdict'] {
  const oracle = runs.find((run) => run.label === 'oracle')
  if (!oracle) throw new RangeError('no oracle among the runs')
  const failures = runs.flatMap((run) => [
    ...runChecks(run, run.label),
    ...oracleChecks(run, oracle),
  ])
  return verdictOf(runs, failures, bars, requiresValid)
}
