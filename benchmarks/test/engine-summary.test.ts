import { describe, expect, it } from 'vitest'
import type { EngineStats } from '@kvferry/reference-engine'
import {
  highest,
  isTrialValid,
  overrunShareOf,
  perSide,
  utilisationOf,
  verificationOf,
} from '../src/compare/engine-summary.ts'
import type { EngineObservation } from '../src/compare/cluster-session.ts'
import type { Trial } from '../src/compare/trial.ts'

const stats = (overrides: Partial<EngineStats>): EngineStats =>
  ({
    modelledMs: 0,
    overrunMs: 0,
    blocks: { total: 8, free: 8, owned: 0, cached: 0, leased: 0, quarantined: 0 },
    verification: { blocksLoaded: 0, blocksVerified: 0, mismatchedBlocks: 0 },
    ...overrides,
  }) as EngineStats

const engine = (
  role: EngineObservation['role'],
  after: Partial<EngineStats>,
  end: Partial<EngineStats> = {},
): EngineObservation => ({
  role,
  before: stats({ modelledMs: 100, overrunMs: 50 }),
  after: stats(after),
  end: stats(end),
  cpuSeconds: 1,
})

const trial = (engines: readonly EngineObservation[], cpuBusy = 0.5): Trial =>
  ({ engines, cpuBusy }) as unknown as Trial

describe('overrun guard', () => {
  const fine = engine('producer', { modelledMs: 1_100, overrunMs: 100 })
  const slow = engine('consumer', { modelledMs: 1_100, overrunMs: 101 })

  it('counts the measured phase only', () => {
    expect(overrunShareOf([fine])).toBeCloseTo(0.05)
  })

  it('holds for each engine: one that keeps up does not make up for one that does not', () => {
    expect(isTrialValid(trial([fine]))).toBe(true)
    const idle = engine('producer', { modelledMs: 10_100, overrunMs: 50 })
    expect(isTrialValid(trial([idle, slow]))).toBe(false)
  })

  it('refuses a machine that is too busy', () => {
    expect(isTrialValid(trial([fine], 0.75))).toBe(true)
    expect(isTrialValid(trial([fine], 0.76))).toBe(false)
  })
})

describe('utilisation', () => {
  const [producer, consumer] = [
    engine('producer', { modelledMs: 350 }),
    engine('consumer', { modelledMs: 900 }),
  ]
  const measured = { startedAtMs: 5_000, endedAtMs: 6_000 }
  const busy = { ...trial([producer, consumer]), measured } as Trial

  it('is the share of the measured phase that modelled steps took', () => {
    expect(utilisationOf(busy)).toEqual({ producer: 0.25, consumer: 0.8 })
    expect(utilisationOf({ ...busy, engines: [consumer] }).producer).toBeNull()
  })

  it('of several trials is the worst of each side', () => {
    const trials = [
      { producer: 0.25, consumer: 0.8 },
      { producer: 0.4, consumer: 0.1 },
      { producer: null, consumer: 0.2 },
    ]
    expect(highest(trials)).toEqual({ producer: 0.4, consumer: 0.8 })
    expect(highest([{ producer: null, consumer: 0.2 }]).producer).toBeNull()
  })
})

describe('verificationOf', () => {
  const loaded = (blocksLoaded: number, blocksVerified: number): EngineObservation =>
    engine('consumer', {}, { verification: { blocksLoaded, blocksVerified, mismatchedBlocks: 0 } })

  it('wants every loaded block verified', () => {
    expect(verificationOf([trial([loaded(4, 4)])], true).bytesVerified).toBe(true)
    expect(verificationOf([trial([loaded(4, 3)])], true).bytesVerified).toBe(false)
  })

  it('does not let one trial make up for another', () => {
    const trials = [trial([loaded(4, 3)]), trial([loaded(4, 9)])]
    expect(verificationOf(trials, true).bytesVerified).toBe(false)
  })

  it('wants something to have been loaded, except from the oracle', () => {
    expect(verificationOf([trial([loaded(0, 0)])], true).bytesVerified).toBe(false)
    expect(verificationOf([trial([loaded(0, 0)])], false).bytesVerified).toBe(true)
  })

  it('counts blocks that nobody gave back, cached ones not', () => {
    const blocks = { total: 8, free: 1, owned: 1, cached: 3, leased: 2, quarantined: 1 }
    const summary = verificationOf([trial([engine('producer', {}, { blocks })])], false)
    expect(summary.blocksHeldAtEnd).toBe(4)
  })
})

describe('perSide', () => {
  it('puts the oracle on the consumer side and nothing on the other', () => {
    const count = perSide([trial([engine('both', {})])], (engines) => engines.length)
    expect(count).toEqual({ producer: null, consumer: 1 })
  })
})
