/**
 * Whether the files of a sweep may be believed. Points outside the overrun guard are named but break
 * nothing: a grid reaches on purpose beyond what a machine carries. Pure.
 */
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
  const failures: string[] = []
  const check = (isGood: boolean, text: string): void => {
    if (!isGood) failures.push(`${nameOf(file)}: ${text}`)
  }
  const failed = run?.failed ?? Number(file['failed'])
  check(failed === 0, `${failed} requests failed; first: ${run?.errors[0] ?? 'see its log'}`)
  if (!run) return failures
  check(run.mismatchedBlocks === 0, `${run.mismatchedBlocks} KV blocks held wrong bytes`)
  check(
    run.bytesVerified,
    `not every byte was verified: ${run.blocksVerified} of ${run.blocksLoaded} loaded blocks`,
  )
  check(run.blocksHeldAtEnd === 0, `${run.blocksHeldAtEnd} blocks were not given back at the end`)
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
