/**
 * Each run of a sweep beside inline pull over descriptors at the same point: how many times as long that one's first token takes,
 * and how much less time a token needs. The published comparison of push and pull has two such numbers. Pure.
 */
import type { PointFile } from './point-file.ts'
import { pointKey, type GridPoint } from './grid.ts'
import { timesOf, type RealTimes } from './real-vllm.ts'

export interface BesideInlinePull extends RealTimes {
  readonly label: string
  readonly point: GridPoint
  readonly valid: boolean | null
  /** Inline pull's mean time to the first token as a multiple of this one's; null for itself, and where it was not run. */
  readonly ttftRatio: number | null
  /** Share of inline pull's time a token that this one saves. */
  readonly tpotSaved: number | null
}

/** Of the text: 16k tokens at 8 a second, 1,744 ms to 540 ms and 10.4 ms to 7 ms. */
export const publishedPushText = {
  ...{ inputTokens: 16_384, qps: 8, ttftRatio: 3.2, tpotSaved: 0.3 },
} as const

/** Over descriptors where that was run, else by whichever path. */
function baselineOf(files: readonly PointFile[], key: string): PointFile | undefined {
  const inline = files.filter(({ kvferry: { run, point } }) => {
    const isHere = `${pointKey(point)}_${point.iteration}` === key
    return isHere && run?.connector === 'pull' && run.options['posting'] === 'inline'
  })
  return inline.find(({ kvferry }) => kvferry.label.includes('-descriptors')) ?? inline[0]
}

export function besideInlinePull(files: readonly PointFile[]): BesideInlinePull[] {
  return files.flatMap((file) => {
    const { run, point, label, valid } = file.kvferry
    const ours = run && timesOf(run)
    if (!ours) return []
    const baseline = baselineOf(files, `${pointKey(point)}_${point.iteration}`)
    const other = baseline === undefined || baseline === file ? null : baseline.kvferry.run
    const theirs = other && timesOf(other)
    return [
      {
        ...{ label, point, valid, ...ours },
        ttftRatio: theirs && theirs.ttftMeanMs / ours.ttftMeanMs,
        tpotSaved: theirs && 1 - ours.tpotMeanMs / theirs.tpotMeanMs,
      },
    ]
  })
}
