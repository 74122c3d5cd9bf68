/** `micro --history`: known rounds in, known numbers out; and a small history, really measured. */
import { describe, expect, it } from 'vitest'
import { assertMatchesSchema } from '../src/lib/result-schema.ts'
import { runMicroHistory } from '../src/micro/history.ts'
import { historyCases } from '../src/micro/history-statistics.ts'
import { renderMicroHistory } from '../src/micro/history-table.ts'

const sizes = [
  { entryCount: 10_000, bytesPerEntry: 80 },
  { entryCount: 1_000_000, bytesPerEntry: 90 },
]
const rounds = (small: number, large: number) =>
  Array.from({ length: 20 }, (_, drift) => ({
    us: [small * (1 + drift), large * (1 + drift)],
    again: small * (1 + drift),
  }))

describe('statistics', () => {
  it('judge the largest by itself and against the smallest, round by round', () => {
    const { cases, spread } = historyCases(rounds(0.01, 0.05), sizes, 128)
    expect(spread).toBe(0)
    expect(cases.map(({ bar }) => bar.verdict)).toEqual(['reported', 'pass', 'pass'])
    expect(cases[2]).toMatchObject({ kind: 'history-growth', ratio: { p50: 5, max: 5 } })
  })

  it('fail each bar on its own', () => {
    const slow = historyCases(rounds(1, 3), sizes, 128).cases
    expect(slow.map(({ bar }) => bar.verdict)).toEqual(['reported', 'fail', 'pass'])
    const growing = historyCases(rounds(0.01, 0.09), sizes, 128).cases
    expect(growing.map(({ bar }) => bar.verdict)).toEqual(['reported', 'pass', 'fail'])
  })
})

it('measures what it says, and the result keeps to its schema', async () => {
  const result = await runMicroHistory({ rounds: 3, entryCounts: [1_024, 2_048] })
  assertMatchesSchema('micro', result)
  expect(result.cases.map(({ kind }) => kind)).toEqual([
    ...['history-lookup', 'history-lookup'],
    'history-growth',
  ])
  const [small] = result.cases
  expect(small).toMatchObject({ entries: 1_024, rounds: 3, blocksPerPrompt: 128 })
  expect(renderMicroHistory(result)).toContain('1,024 entries')
})
