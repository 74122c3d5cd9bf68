/** What a comparison's flags make of a preset, before anything is started. */
import { describe, expect, it } from 'vitest'
import { parseCompareFlags, type CompareFlags } from '../src/commands/compare-options.ts'
import { presets } from '../src/compare/presets.ts'

const presetOf = (more: Partial<CompareFlags> = {}) =>
  parseCompareFlags({
    ...{ connectors: 'pull,push', preset: 'quick', posting: 'both', option: [] },
    ...{ hooks: 'after-launch', seed: '1', prefixCaching: 'off' },
    ...more,
  }).preset

describe('flags of compare', () => {
  it('leave the preset alone where they say nothing', () => {
    expect(presetOf()).toEqual(presets.quick)
  })

  it('make room for longer prompts, for as many at once as the preset has', () => {
    const { inputTokens, engine } = presetOf({ inputTokens: '2048', maxNumBatchedTokens: '256' })
    expect(inputTokens).toBe(2_048)
    expect(engine).toMatchObject({ maxNumBatchedTokens: 256, maxModelLen: 2_064 })
    expect(engine.blockCount).toBe(129 * engine.maxNumSeqs)
  })

  it('take no room away for shorter ones', () => {
    expect(presetOf({ inputTokens: '64', maxModelLen: '80' }).engine).toMatchObject({
      maxModelLen: 80,
      blockCount: presets.quick.engine.blockCount,
    })
  })
})
