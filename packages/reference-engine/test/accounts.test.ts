/** Modelled time, and the books that say whether the machine kept up with it. */
import { describe, expect, it } from 'vitest'
import { DistributionRecorder } from '../src/core/distribution.ts'
import { HeldBlocks } from '../src/core/held-blocks.ts'
import { StepAccounts } from '../src/core/step-accounts.ts'
import { modelStepMs, timePresets } from '../src/time-model.ts'

const preset = {
  stepBaseMs: 10,
  perSequenceMs: 1,
  contextTokenMs: 0,
  prefillTokenMs: 0.1,
  prefillPairMs: 0.001,
}

describe('the time model', () => {
  it('asks the weights once and each sequence once for decode', () => {
    expect(modelStepMs(preset, [], 1)).toBe(0)
    expect(modelStepMs(preset, [{ start: 5, end: 6 }], 1)).toBe(11)
    const four = Array.from({ length: 4 }, () => ({ start: 5, end: 6 }))
    expect(modelStepMs(preset, four, 1)).toBe(14)
  })

  it('asks for each prefill token, and for each pair of tokens', () => {
    expect(modelStepMs(preset, [{ start: 0, end: 200 }], 1)).toBeCloseTo(20 + 20 + 1)
  })

  it('charges a prompt the same attention however it is cut', () => {
    const cut = [0, 300, 700].map((start, index) => ({ start, end: [300, 700, 1_000][index] ?? 0 }))
    const parts = cut.reduce((sum, chunk) => sum + modelStepMs(preset, [chunk], 1) - 1, 0)
    expect(parts).toBeCloseTo(modelStepMs(preset, [{ start: 0, end: 1_000 }], 1) - 1)
  })

  it('hides reading the weights behind a long prefill', () => {
    const chunks = [
      { start: 0, end: 200 },
      { start: 9, end: 10 },
    ]
    expect(modelStepMs(preset, chunks, 1)).toBeCloseTo(40 + 2)
    expect(modelStepMs(preset, chunks, 0.5)).toBeCloseTo(21)
  })

  it('charges decode for the context that it reads, and prefill not', () => {
    const reading = { ...preset, contextTokenMs: 0.01 }
    expect(modelStepMs(reading, [{ start: 500, end: 501 }], 1)).toBeCloseTo(10 + 1 + 5)
    expect(modelStepMs(reading, [{ start: 0, end: 200 }], 1)).toBeCloseTo(20 + 20 + 1)
  })
})

/** What the published comparison says of the device that these presets stand for. */
describe('the presets of Qwen3-32B', () => {
  const decodeStepMs = (sequenceCount: number, contextTokens: number): number => {
    const chunk = { start: contextTokens, end: contextTokens + 1 }
    return modelStepMs(timePresets['qwen3-32b'], Array(sequenceCount).fill(chunk), 1)
  }
  const promptMs = (name: 'qwen3-32b' | 'qwen3-32b-warm', tokens: number): number =>
    modelStepMs(timePresets[name], [{ start: 0, end: tokens }], 1)

  it('take 5.6 to 5.8 ms a token at light load and about 7 with 8 sequences of 16k', () => {
    expect(decodeStepMs(1, 1_024)).toBeGreaterThan(5.55)
    expect(decodeStepMs(1, 1_024)).toBeLessThan(5.8)
    expect(decodeStepMs(2, 8_192)).toBeLessThan(5.8)
    expect(decodeStepMs(8, 16_384)).toBeGreaterThan(6.7)
    expect(decodeStepMs(8, 16_384)).toBeLessThan(7.1)
  })

  it('carry 8 prompts of 16k a second only where P has most of them in its prefix cache', () => {
    expect(promptMs('qwen3-32b-warm', 16_384)).toBeLessThan(125)
    expect(promptMs('qwen3-32b', 16_384)).toBeGreaterThan(171)
  })

  it('decode alike', () => {
    const { stepBaseMs, perSequenceMs, contextTokenMs } = timePresets['qwen3-32b']
    expect(timePresets['qwen3-32b-warm']).toMatchObject({
      stepBaseMs,
      perSequenceMs,
      contextTokenMs,
    })
  })
})

describe('step accounts', () => {
  it('count only work beyond the modelled time as overrun', () => {
    const accounts = new StepAccounts()
    const step = { timerLateMs: 1, hookMs: 0.5, stallMs: 0.25 }
    accounts.record({ ...step, modelledMs: 10, workMs: 4 })
    accounts.record({ ...step, modelledMs: 10, workMs: 13 })
    accounts.record({ ...step, modelledMs: 0, workMs: 0 })
    const totals = accounts.totals()
    expect(totals).toMatchObject({ steps: 3, workMs: 17, modelledMs: 20, overrunMs: 3 })
    expect(totals).toMatchObject({ timerLateMs: 3, stepStallMs: 0.75 })
    expect(totals.hookUsPerStep).toMatchObject({ count: 3, mean: 500, p99: 500, max: 500 })
  })
})

describe('distributions', () => {
  it('are nearest-rank', () => {
    const recorder = new DistributionRecorder()
    for (let value = 100; value >= 1; value--) recorder.record(value)
    expect(recorder.snapshot()).toMatchObject({
      count: 100,
      mean: 50.5,
      p50: 50,
      p90: 90,
      p95: 95,
      p99: 99,
      max: 100,
    })
    expect(recorder.snapshot().samples).toHaveLength(100)
  })

  it('are zero without observations, and bounded with many', () => {
    const recorder = new DistributionRecorder()
    expect(recorder.snapshot()).toMatchObject({ count: 0, mean: 0, p50: 0, max: 0, samples: [] })
    for (let value = 0; value < 40_000; value++) recorder.record(value)
    const { count, max, samples, p50 } = recorder.snapshot()
    expect(count).toBe(40_000)
    expect(max).toBe(39_999)
    expect(samples.length).toBeLessThanOrEqual(1_000)
    // The latest 16,384 are kept.
    expect(p50).toBe(40_000 - 16_384 + 8_191)
  })
})

describe('held blocks', () => {
  it('are integrated over time', () => {
    const held = new HeldBlocks()
    held.change(4, 1_000)
    held.change(6, 2_000)
    held.change(-10, 4_000)
    expect(held.totalBlockSeconds(9_000)).toBe(4 + 20)
    held.change(1, 10_000)
    expect(held.totalBlockSeconds(10_500)).toBe(24.5)
  })
})
