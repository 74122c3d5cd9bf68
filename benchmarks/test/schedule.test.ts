import { describe, expect, it } from 'vitest'
import { createSeededRandom } from '@kvferry/connector-api/testing'
import { presets } from '../src/compare/presets.ts'
import { createSchedule, edgeLengths, type PlannedRequest } from '../src/compare/schedule.ts'

const { quick } = presets
const scheduleOf = (seed: number, requestCount = quick.requestCount): PlannedRequest[] =>
  createSchedule({
    ...quick,
    requestCount,
    blockTokens: quick.engine.blockTokens,
    maxModelLen: quick.engine.maxModelLen,
    random: createSeededRandom(seed),
  })
const measured = (schedule: readonly PlannedRequest[]): PlannedRequest[] =>
  schedule.filter((planned) => planned.phase === 'measured')

describe('createSchedule', () => {
  it('is the same for the same seed and another for another', () => {
    expect(scheduleOf(7)).toEqual(scheduleOf(7))
    expect(scheduleOf(7)).not.toEqual(scheduleOf(8))
  })

  it('has every phase, numbered through', () => {
    const schedule = scheduleOf(1)
    expect(schedule.map((planned) => planned.index)).toEqual(schedule.map((_, i) => i))
    const count = (phase: string): number =>
      schedule.filter((planned) => planned.phase === phase).length
    expect(count('first')).toBe(1)
    expect(count('warm-up')).toBe(quick.warmUpCount)
    expect(count('measured')).toBeGreaterThanOrEqual(100)
    expect(count('burst')).toBe(32)
  })

  it.each(['measured', 'burst'])('has every edge length, streamed and not, in %s', (phase) => {
    const longest = quick.engine.maxModelLen - quick.outputTokens
    const seen = new Set(
      scheduleOf(1)
        .filter((planned) => planned.phase === phase)
        .map((planned) => `${planned.prompt.length} ${planned.isStream}`),
    )
    for (const length of [1, 15, 16, 17, 32, longest]) {
      expect(seen).toContain(`${length} true`)
      expect(seen).toContain(`${length} false`)
    }
  })

  it('has one length where one was asked for, but for the burst, and three in four stream', () => {
    const engine = { blockTokens: 16, maxModelLen: 2_064 }
    const options = { ...quick, ...engine, inputTokens: 2_048, random: createSeededRandom(1) }
    const schedule = createSchedule(options)
    for (const phase of ['warm-up', 'measured']) {
      const requests = schedule.filter((planned) => planned.phase === phase)
      expect(new Set(requests.map(({ prompt }) => prompt.length))).toEqual(new Set([2_048]))
    }
    const streamed = measured(schedule).filter(({ isStream }) => isStream)
    expect(streamed).toHaveLength((quick.requestCount * 3) / 4)
    const burst = schedule.filter(({ phase }) => phase === 'burst')
    expect(burst.map(({ prompt }) => prompt.length)).toEqual(expect.arrayContaining([1, 2_048]))
    expect(() => createSchedule({ ...options, inputTokens: 2_049 })).toThrow(/prompt of 2049/)
  })

  it('has printable ASCII prompts that fit', () => {
    for (const { prompt, outputTokens } of scheduleOf(1)) {
      expect(prompt).toMatch(/^[\x20-\x7e]+$/)
      expect(prompt.length + outputTokens).toBeLessThanOrEqual(quick.engine.maxModelLen)
    }
  })

  it('arrives as a Poisson process of the given rate', () => {
    const times = measured(scheduleOf(3, 4_000)).map((planned) => planned.atMs)
    const gaps = times.slice(1).map((at, i) => at - (times[i] as number))
    const mean = gaps.reduce((sum, gap) => sum + gap, 0) / gaps.length
    const variance = gaps.reduce((sum, gap) => sum + (gap - mean) ** 2, 0) / gaps.length
    expect(mean).toBeCloseTo(1_000 / quick.qps, -1)
    // An exponential distribution's standard deviation equals its mean; a regular one's is 0.
    expect(Math.sqrt(variance) / mean).toBeGreaterThan(0.9)
    expect(Math.sqrt(variance) / mean).toBeLessThan(1.1)
    expect(gaps.every((gap) => gap >= 0)).toBe(true)
  })

  it('sends the burst at one moment', () => {
    const burst = scheduleOf(1).filter((planned) => planned.phase === 'burst')
    expect(burst.every((planned) => planned.atMs === 0)).toBe(true)
  })

  it('refuses a model without room for a prompt', () => {
    expect(() =>
      createSchedule({
        ...quick,
        blockTokens: 16,
        maxModelLen: quick.outputTokens,
        random: createSeededRandom(1),
      }),
    ).toThrow(RangeError)
  })
})

describe('edgeLengths', () => {
  it('leaves out what does not fit, and repeats nothing', () => {
    expect(edgeLengths(16, 496)).toEqual([1, 15, 16, 17, 32, 496])
    expect(edgeLengths(16, 16)).toEqual([1, 15, 16])
    expect(edgeLengths(1, 8)).toEqual([1, 2, 8])
  })
})
