/** Whether the modelled engine is near real vLLM, and what push gains over inline pull: from result files alone. */
import { describe, expect, it } from 'vitest'
import type { Bar } from '../src/experiments/bar.ts'
import { besideInlinePull } from '../src/sweep/beside-inline-pull.ts'
import type { PointFile } from '../src/sweep/point-file.ts'
import { requestsAt, sweepPresets } from '../src/sweep/presets.ts'
import { judgeReality, realVllm, type RealTimes } from '../src/sweep/real-vllm.ts'
import { renderSummary, summaryOf } from '../src/sweep/summary.ts'

const none = { p50: null }

interface Found {
  readonly connector: 'pull' | 'push'
  readonly qps: number
  readonly times: RealTimes
  readonly path?: string
  readonly hooks?: string
  readonly valid?: boolean
}

function fileOf({ connector, qps, times, ...more }: Found): PointFile {
  const { path = 'descriptors', hooks = 'additive', valid = true } = more
  const options = connector === 'pull' ? { posting: 'inline' } : {}
  const label = [connector, ...(connector === 'pull' ? ['inline'] : []), path, hooks].join('-')
  const run = {
    ...{ connector, label, options, hooks },
    ttftMs: { mean: times.ttftMeanMs, p50: times.ttftP50Ms },
    tpotMs: { mean: times.tpotMeanMs },
    ...{ criticalPathMs: none, pathLessWireMs: none, firstPostMs: none, wireMs: none },
    ...{ blockedUs: { total: none }, breakdown: {} },
    utilisation: { producer: null, consumer: null },
  }
  const point = { qps, inputTokens: 8_000, outputTokens: 64, iteration: 1 }
  const metrics = { 'ttftMs.mean': { relativeDifference: 0.04 } }
  const kvferry = { label, point, valid, run, noiseFloor: { metrics } }
  return { label, completed: 1, duration: 1, kvferry } as unknown as PointFile
}

const filesAt = (qps: number, scale = 1, more: Partial<Found> = {}): PointFile[] =>
  (['pull', 'push'] as const).map((connector) => {
    const real = realVllm.find((each) => each.qps === qps)![connector]
    const times = {
      ...real,
      ttftMeanMs: connector === 'pull' ? real.ttftMeanMs * scale : real.ttftMeanMs,
    }
    return fileOf({ connector, qps, times, ...more })
  })

function verdicts(files: readonly PointFile[]) {
  const bars = judgeReality(files)
  const of = (word: Bar['verdict']) => bars.filter(({ verdict }) => verdict === word)
  return { missed: of('missed'), held: of('held'), open: of('not-judged') }
}

describe('near real vLLM', () => {
  it('vLLM’s own numbers keep all bars, at each rate that was run', () => {
    const files = realVllm.flatMap(({ qps }) => filesAt(qps))
    const bars = judgeReality(files)
    expect(bars).toHaveLength(3 * 9)
    expect(new Set(bars.map(({ verdict }) => verdict))).toEqual(new Set(['held']))
    expect(judgeReality(filesAt(8))).toHaveLength(9)
    expect(bars[0]).toMatchObject({ subject: 'pull at 2/s', limit: 0.25, noise: 0.04 })
  })

  it('a time that is more than a quarter off misses its bar, and that of the ratio', () => {
    for (const scale of [1.3, 0.7]) {
      const { missed, held } = verdicts(filesAt(8, scale))
      expect(missed.map(({ subject, rule }) => `${subject} ${rule}`)).toEqual([
        "pull at 8/s TTFT mean within 25 % of vLLM's",
        "pull ÷ push at 8/s TTFT mean within 25 % of vLLM's",
      ])
      expect(held).toHaveLength(7)
    }
    expect(verdicts(filesAt(8, 1.2)).missed).toEqual([])
  })

  it('other paths, other hooks and points outside the guard decide nothing', () => {
    expect(judgeReality(filesAt(8, 3, { path: 'ipc' }))).toEqual([])
    expect(judgeReality(filesAt(8, 3, { hooks: 'after-launch' }))).toEqual([])
    expect(verdicts(filesAt(8, 3, { valid: false })).open).toHaveLength(9)
  })

  it('each rate has as many requests as arrive in the window', () => {
    const counts = [2, 4, 8].map((qps) => requestsAt(sweepPresets['vllm-load'], { qps }))
    expect(counts).toEqual([26, 52, 104])
    expect(requestsAt(sweepPresets['push-text'], { qps: 1 })).toBe(100)
  })
})

describe('beside inline pull', () => {
  it('over descriptors where that was run: how many times its first token takes, and what a token saves', () => {
    const [pull, push] = filesAt(8)
    const other = fileOf({ connector: 'pull', qps: 8, path: 'ipc', times: realVllm[2]!.push })
    const rows = besideInlinePull([other, pull!, push!])
    expect(rows.map(({ label }) => label)).toEqual([other.label, pull!.label, push!.label])
    expect(rows[1]).toMatchObject({ ttftRatio: null, tpotSaved: null })
    expect(rows[2]!.ttftRatio).toBeCloseTo(486 / 121)
    expect(rows[2]!.tpotSaved).toBeCloseTo(1 - 2.42 / 4.13)
    expect(besideInlinePull([push!])[0]).toMatchObject({ ttftRatio: null })
    const verdict = { ok: true, failures: [], invalid: [] }
    const text = renderSummary(
      summaryOf('results', [pull!, push!], verdict, judgeReality([pull!, push!])),
    )
    expect(text).toContain('4.02 times as long, TPOT 41 % less')
    expect(text).not.toContain('MISSED')
  })
})
