/** A bar whose limit gives way to noise: how far it may, and what it is when it gives way further. */
import { describe, expect, it } from 'vitest'
import {
  atMost,
  atMostBesideNoise,
  missedTexts,
  noisyTexts,
  unlessInvalid,
} from '../src/experiments/bar.ts'
import { barRows, barText } from '../src/experiments/bar-table.ts'
import { judgeExperiment } from '../src/experiments/experiment.ts'
import { guard } from '../src/limits.ts'
import { barTables } from '../src/report/run-panels.ts'

const described = { subject: 'xavier', rule: "p50 at most pull's and its noise", note: 'ms' }
const beside = (value: number | null, other: number | null, noise: number | null) =>
  atMostBesideNoise(described, value, other, noise)

describe('a limit that gives way to noise', () => {
  it('is the other’s value and its noise, as long as that is little', () => {
    expect(beside(102, 100, 0.02)).toEqual({
      ...{ subject: 'xavier', rule: described.rule, note: 'ms; A-A noise 2.0 %' },
      ...{ value: 102, limit: 102, noise: 0.02, verdict: 'held' },
    })
    expect(beside(102.1, 100, 0.02).verdict).toBe('missed')
    expect(beside(110, 100, guard.noiseShareMax).verdict).toBe('held')
  })

  it('decides nothing where only a large noise excuses, nor where nothing had to be excused', () => {
    for (const value of [90, 139]) {
      const bar = beside(value, 100, 0.4)
      expect(bar).toMatchObject({ verdict: 'too-noisy', value, limit: 140, noise: 0.4 })
    }
    expect(beside(100, 100, guard.noiseShareMax + 1e-6).verdict).toBe('too-noisy')
  })

  it('is missed by what is worse than even a large noise', () => {
    expect(beside(141, 100, 0.4).verdict).toBe('missed')
  })

  it('is not judged without its numbers', () => {
    for (const bar of [beside(null, 100, 0.4), beside(90, null, 0.4), beside(90, 100, null)]) {
      expect(bar).toMatchObject({ verdict: 'not-judged', value: null, limit: null, noise: null })
    }
    expect(beside(90, 100, null).note).toBe('ms; A-A noise –')
  })

  it('is one of its own: others have no noise in theirs', () => {
    expect(atMost(described, 1, 2)).toMatchObject({ verdict: 'held', noise: null })
  })
})

describe('a bar that noise decides', () => {
  const bars = [beside(90, 100, 0.142), beside(90, 100, 0.02)]

  it('says so on the screen and in the report', () => {
    expect(barText(bars, '')).toContain(`not judged (noise 14.2 %)  xavier: ${described.rule}\n`)
    expect(barRows(bars).map(([, , verdict]) => verdict)).toEqual([
      'not judged (noise 14.2 %)',
      'held',
    ])
    expect(barTables(bars)[0]?.rows).toEqual(barRows(bars))
  })

  it('is a warning in every preset, and never a failure', () => {
    const warning = `xavier: bar not judged: ${described.rule} (noise 14.2 %, more than 10.0 %)`
    expect(noisyTexts(bars)).toEqual([warning])
    expect(missedTexts(bars)).toEqual([])
    for (const requiresValid of [false, true]) {
      const verdict = judgeExperiment([], [], bars, requiresValid)
      expect(verdict).toEqual({ ok: true, failures: [], warnings: [warning] })
    }
  })

  it('is one that nobody judges where a run lies outside the overrun guard', () => {
    const open = unlessInvalid(bars, [{ label: 'pull', valid: false }])
    expect(open.map(({ verdict, noise }) => [verdict, noise])).toEqual([
      ['not-judged', 0.142],
      ['not-judged', 0.02],
    ])
  })
})
