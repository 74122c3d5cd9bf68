/**
 * What real vLLM (0.24, NixlConnector and NixlPushConnector with gathered descriptors) was measured with on two H200, and whether
 * the modelled engine comes within a quarter of it: `sweep --preset vllm-load`. Judged are inline pull and push by descriptors, where
 * the model claims to be vLLM; other paths stand beside them. Pure.
 */
import { atMost, unlessInvalid, type Bar } from '../experiments/bar.ts'
import type { RunEntry } from '../compare/result.ts'
import type { PointFile } from './point-file.ts'

/** Milliseconds; times to the first token from the arrival. */
export interface RealTimes {
  readonly ttftMeanMs: number
  readonly ttftP50Ms: number
  readonly tpotMeanMs: number
}

export interface RealPoint {
  readonly qps: number
  readonly pull: RealTimes
  readonly push: RealTimes
}

const times = (ttftMeanMs: number, ttftP50Ms: number, tpotMeanMs: number): RealTimes => ({
  ...{ ttftMeanMs, ttftP50Ms, tpotMeanMs },
})

/** 8,000 tokens in, 64 out, 8 sequences; 24 to 103 requests a point, one schedule. */
export const realVllm: readonly RealPoint[] = [
  { qps: 2, pull: times(212, 158, 2.47), push: times(82, 76, 2.45) },
  { qps: 4, pull: times(187, 156, 3.01), push: times(86, 81, 2.32) },
  { qps: 8, pull: times(486, 331, 4.13), push: times(121, 106, 2.42) },
]

/** How far the model may be off, as a share of what was measured. */
export const realityTolerance = 0.25

const quantities = [
  { name: 'TTFT mean', field: 'ttftMeanMs', noise: 'ttftMs.mean' },
  { name: 'TTFT p50', field: 'ttftP50Ms', noise: 'ttftMs.p50' },
  { name: 'TPOT mean', field: 'tpotMeanMs', noise: 'tpotMs.mean' },
] as const

export function timesOf({ ttftMs, tpotMs }: RunEntry): RealTimes | null {
  if (ttftMs.mean === null || ttftMs.p50 === null || tpotMs.mean === null) return null
  return times(ttftMs.mean, ttftMs.p50, tpotMs.mean)
}

type Modelled = PointFile & { readonly kvferry: { readonly run: RunEntry } }

/** Inline pull, or push, over descriptors, with the hooks in the step. */
const isModelOf =
  (connector: 'pull' | 'push') =>
  (file: PointFile): file is Modelled => {
    const { run } = file.kvferry
    if (run === null || run.connector !== connector || run.hooks !== 'additive') return false
    return (
      run.label.includes('-descriptors') &&
      (connector === 'push' || run.options['posting'] === 'inline')
    )
  }

const offBy = (value: number, real: number): number => Math.abs(value / real - 1)

function judge(
  subject: string,
  name: string,
  pair: { readonly value: number; readonly real: number } | null,
  noise: number | null,
): Bar {
  const rule = `${name} within ${realityTolerance * 100} % of vLLM's`
  const note = pair === null ? 'not run' : `${pair.value.toFixed(2)}, vLLM ${pair.real}`
  const value = pair === null ? null : offBy(pair.value, pair.real)
  return { ...atMost({ subject, rule, note }, value, realityTolerance), noise }
}

function barsAt(real: RealPoint, files: readonly PointFile[]): Bar[] {
  const here = files.filter(({ kvferry }) => kvferry.point.qps === real.qps)
  const found = { pull: here.find(isModelOf('pull')), push: here.find(isModelOf('push')) }
  if (found.pull === undefined && found.push === undefined) return []
  const timesBy = (connector: 'pull' | 'push'): RealTimes | null => {
    const file = found[connector]
    return file === undefined ? null : timesOf(file.kvferry.run)
  }
  const ours = { pull: timesBy('pull'), push: timesBy('push') }
  const each = (['pull', 'push'] as const).flatMap((connector) =>
    quantities.map(({ name, field, noise }) => {
      const times = ours[connector]
      const pair = times && { value: times[field], real: real[connector][field] }
      const share = found[connector]?.kvferry.noiseFloor.metrics[noise]?.relativeDifference ?? null
      return judge(`${connector} at ${real.qps}/s`, name, pair, share)
    }),
  )
  const ratios = quantities.map(({ name, field }) => {
    const ratio = (of: Record<'pull' | 'push', RealTimes>) => of.pull[field] / of.push[field]
    const both = ours.pull && ours.push ? { pull: ours.pull, push: ours.push } : null
    const exact = Number(ratio(real).toFixed(2))
    const pair = both && { value: ratio(both), real: exact }
    return judge(`pull ÷ push at ${real.qps}/s`, name, pair, null)
  })
  const runs = [found.pull, found.push].flatMap((file) =>
    file === undefined ? [] : [{ label: file.kvferry.label, valid: file.kvferry.valid === true }],
  )
  return unlessInvalid([...each, ...ratios], runs)
}

/** Nothing for rates that vLLM was not measured at, and for connectors that were not run. */
export const judgeReality = (files: readonly PointFile[]): Bar[] =>
  realVllm.flatMap((real) => barsAt(real, files))
