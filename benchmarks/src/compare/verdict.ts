/**
 * Whether a comparison may be believed, and if not, why: the checks that make the command exit 1. Pure.
 */
import { guard, limits } from '../limits.ts'
import type { CompareResult, RunEntry } from './result.ts'

function checksOf(run: RunEntry, oracle: RunEntry): string[] {
  const failures: string[] = []
  const check = (isGood: boolean, text: string): void => {
    if (!isGood) failures.push(`${run.label}: ${text}`)
  }
  check(run.failed === 0, `${run.failed} requests failed; first: ${run.errors[0] ?? 'unknown'}`)
  check(run.mismatchedBlocks === 0, `${run.mismatchedBlocks} KV blocks held wrong bytes`)
  check(
    run.bytesVerified,
    `not every byte was verified: ${run.blocksVerified} of ${run.blocksLoaded} loaded blocks`,
  )
  check(run.wrongTexts === 0, `${run.wrongTexts} outputs differ from the oracle's`)
  check(run.outputDigest === oracle.outputDigest, 'outputDigest differs from the oracle’s')
  check(run.blocksHeldAtEnd === 0, `${run.blocksHeldAtEnd} blocks were not given back at the end`)
  return failures
}

function guardText(run: RunEntry): string {
  const worst = run.trials.flatMap(({ overrunShare }) => [
    overrunShare.producer ?? 0,
    overrunShare.consumer ?? 0,
  ])
  const percent = (share: number): string => `${(share * 100).toFixed(1)} %`
  return (
    `${run.label}: outside the overrun guard (overrun ${percent(Math.max(0, ...worst))}, limit ` +
    `${percent(guard.overrunShareMax)}; CPU ${percent(run.cpuBusy)}, limit ` +
    `${percent(guard.cpuBusyMax)}): timings describe this machine, not the protocol`
  )
}

/** @throws RangeError when `runs` has no oracle. */
export function judge(runs: readonly RunEntry[], requiresValid: boolean): CompareResult['verdict'] {
  const oracle = runs.find((run) => run.label === 'oracle')
  if (!oracle) throw new RangeError('no oracle among the runs')
  const failures = runs.flatMap((run) => checksOf(run, oracle))
  const invalid = runs.filter((run) => !run.valid).map(guardText)
  if (requiresValid) failures.push(...invalid)
  return {
    ok: failures.length === 0,
    failures: failures.slice(0, limits.failuresMax),
    warnings: requiresValid ? [] : invalid,
  }
}
