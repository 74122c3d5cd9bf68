/** Each check alone makes a comparison fail. */
import { describe, expect, it } from 'vitest'
import type { RunEntry } from '../src/compare/result.ts'
import { judge } from '../src/compare/verdict.ts'
import { atMost } from '../src/experiments/bar.ts'

const good = {
  label: 'pull',
  valid: true,
  cpuBusy: 0.2,
  failed: 0,
  errors: [] as readonly string[],
  mismatchedBlocks: 0,
  bytesVerified: true,
  wrongTexts: 0,
  outputDigest: 'a',
  blocksHeldAtEnd: 0,
  trials: [{ overrunShare: { producer: 0.01, consumer: 0.02 } }],
} as unknown as RunEntry
const oracle: RunEntry = { ...good, label: 'oracle' }

const verdictOf = (bad: Partial<RunEntry>, requiresValid = false) =>
  judge([oracle, { ...good, ...bad }], [], requiresValid)

describe('judge', () => {
  it('is content with a good run', () => {
    expect(verdictOf({})).toEqual({ ok: true, failures: [], warnings: [] })
  })

  it.each<[Partial<RunEntry>, RegExp]>([
    [{ failed: 1, errors: ['HTTP 500'] }, /1 requests failed; first: HTTP 500/],
    [{ mismatchedBlocks: 1 }, /1 KV blocks held wrong bytes/],
    [{ bytesVerified: false }, /not every byte was verified/],
    [{ bytesVerified: false, blocksVerified: 0, blocksLoaded: 0 }, /no block was loaded/],
    [{ wrongTexts: 1 }, /1 outputs differ/],
    [{ outputDigest: 'b' }, /outputDigest differs/],
    [{ blocksHeldAtEnd: 3 }, /3 blocks were not given back/],
  ])('%j fails it', (bad, text) => {
    const { ok, failures } = verdictOf(bad)
    expect(ok).toBe(false)
    expect(failures).toHaveLength(1)
    expect(failures[0]).toMatch(text)
  })

  it('fails when the oracle itself failed', () => {
    const failing = { ...oracle, failed: 1, errors: ['HTTP 500'] }
    expect(judge([failing, good], [], false).ok).toBe(false)
  })

  it('warns of an invalid point, or fails where validity is required', () => {
    const invalid = { valid: false, cpuBusy: 0.9 }
    const warned = verdictOf(invalid)
    expect(warned.ok).toBe(true)
    expect(warned.warnings[0]).toMatch(/overrun 2\.0 %, limit 5\.0 %; CPU 90\.0 %, limit 75\.0 %/)
    const refused = verdictOf(invalid, true)
    expect(refused.ok).toBe(false)
    expect(refused.warnings).toEqual([])
  })

  it('warns of a missed bar, or fails where validity is required', () => {
    const bars = [atMost({ subject: 'push', rule: 'fast', note: 'ms' }, 2, 1)]
    const text = 'push: bar missed: fast (2, limit 1; ms)'
    const warned = judge([oracle, good], bars, false)
    expect(warned).toEqual({ ok: true, failures: [], warnings: [text] })
    expect(judge([oracle, good], bars, true)).toEqual({ ok: false, failures: [text], warnings: [] })
  })
})
