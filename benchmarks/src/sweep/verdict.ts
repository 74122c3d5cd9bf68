/**
 * Whether the files of a sweep may be believed. Points outside the overrun guard are named but break
 * nothing: a grid reaches on purpose beyond what a machine carries. Pure.
 */
import { createChecks, runChecks } from '../compare/verdict.ts'
import { limits } from '../limits.ts'
import { pointKey } from './grid.ts'
import type { PointFile } from './point-file.ts'

export interface SweepVerdict {
  readonly ok: boolean
  readonly failures: readonly string[]
  /** `LABEL at POINT`, outside the overrun guard. */
  readonly invalid: readonly string[]
}

const nameOf = ({ kvferry }: PointFile): string => `${kvferry.label} at ${pointKey(kvferry.point)}`

function checksOf(file: PointFile): string[] {
  const { run } = file.kvferry
  if (run) return runChecks(run, nameOf(file))
  const { failures, check } = createChecks(nameOf(file))
  const failed = Number(file['failed'])
  check(failed === 0, `${failed} requests failed; see its log`)
  return failures
}

/** The same requests have the same texts, whatever moved their KV. */
function differingTexts(files: readonly PointFile[]): string[] {
  const first = new Map<string, PointFile>()
  const failures: string[] = []
  for (const file of files) {
    const { run, point } = file.kvferry
    if (!run || run.failed > 0) continue
    const key = `${pointKey(point)}_iter${point.iteration}`
    const other = first.get(key)
    if (!other) first.set(key, file)
    else if (other.kvferry.run?.outputDigest !== run.outputDigest) {
      failures.push(`${nameOf(file)}: texts differ from those of ${other.kvferry.label}`)
    }
  }
  return failures
}

export function judgeSweep(files: readonly PointFile[], notMade: readonly string[]): SweepVerdict {
  const failures = [...notMade, ...files.flatMap(checksOf), ...differingTexts(files)]
  return {
    ok: failures.length === 0,
    failures: failures.slice(0, limits.failuresMax),
    invalid: files.filter(({ kvferry }) => kvferry.valid === false).map(nameOf),
  }
}
