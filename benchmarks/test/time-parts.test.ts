import { expect, test } from 'vitest'
import type { RunEntry } from '../src/compare/result.ts'
import type { PointFile } from '../src/sweep/point-file.ts'
import { renderSummary, summaryOf } from '../src/sweep/summary.ts'
import { timePartsOf } from '../src/sweep/time-parts.ts'

const times = (p50: number | null) => ({ p50 })

const run = {
  ...{ criticalPathMs: times(13.5), pathLessWireMs: times(5.4), firstPostMs: times(4.8) },
  ...{ wireMs: times(8.1), blockedUs: { total: times(2_345) } },
  breakdown: { queue: times(4), handOver: times(null) },
  utilisation: { producer: 0.2, consumer: 0.7 },
  ...{ connector: 'pull', options: {}, ttftMs: times(1), tpotMs: times(1) },
} as unknown as RunEntry

const fileOf = (entry: RunEntry | null): PointFile => {
  const point = { qps: 1, inputTokens: 2, outputTokens: 3, iteration: 1 }
  const kvferry = { label: 'pull', point, valid: true, run: entry, conditions: null }
  return { label: 'pull', completed: 1, duration: 1, kvferry } as unknown as PointFile
}

test('medians of each part; what was not seen is left out, the busier engine counts', () => {
  expect(timePartsOf(run)).toEqual({
    ...{ criticalPathMs: 13.5, pathLessWireMs: 5.4, firstPostMs: 4.8, wireMs: 8.1 },
    ...{ blockedUs: 2_345, breakdownMs: { queue: 4 }, utilisation: 0.7 },
  })
  const unseen = { ...run, utilisation: { producer: null, consumer: null } } as RunEntry
  expect(timePartsOf(unseen).utilisation).toBeNull()
})

test('a sweep shows them beside the times; of a server given by URL nothing is known', () => {
  const verdict = { ok: true, failures: [], invalid: [] }
  const summary = summaryOf('results', [fileOf(run), fileOf(null)], verdict)
  expect(summary.points.map(({ parts }) => parts?.wireMs ?? null)).toEqual([8.1, null])
  const [ours, other] = renderSummary(summary)
    .split('\n')
    .filter((line) => line.includes('pull'))
  expect(ours).toMatch(/13\.5 .* 2\.35 /)
  expect(other).toMatch(/– .* – /)
})
