/** Each bar of `compare` alone: what holds it, what misses it, what leaves it open; and where they are shown. */
import { createSystemClock } from '@kvferry/runtime'
import { describe, expect, it } from 'vitest'
import { parseConnectorList } from '../src/commands/connector-list.ts'
import { compareBars, type BarSurroundings } from '../src/compare/bars.ts'
import { runCompare } from '../src/compare/compare.ts'
import { resolveConfigurations } from '../src/compare/configuration.ts'
import { presets } from '../src/compare/presets.ts'
import { processClusters } from '../src/compare/process-cluster.ts'
import type { CompareResult, NoiseFloor, RunEntry } from '../src/compare/result.ts'
import { renderResult } from '../src/compare/table.ts'
import { createDistribution } from '../src/lib/distribution.ts'
import { silentProgress } from '../src/lib/progress.ts'
import { assertMatchesSchema } from '../src/lib/result-schema.ts'
import { renderCompareReport } from '../src/report/compare-report.ts'
import type { Bar } from '../src/experiments/bar.ts'
import { fakePaths } from './fake-programs.ts'

const at = (value: number) => createDistribution([value])
const blocked = (descriptors: number, copy: number) => ({
  total: at(descriptors + copy),
  descriptors: at(descriptors),
  copy: at(copy),
})

const inline = {
  connector: 'pull',
  label: 'pull-inline',
  options: { posting: 'inline' },
  build: null,
  hooks: 'after-launch',
  valid: true,
  utilisation: { producer: 0.2, consumer: 0.8 },
  ttftMs: at(50),
  tpotMs: at(9),
  firstPostMs: at(10),
  criticalPathMs: at(12),
  pathLessWireMs: at(11),
  criticalBytes: at(9_000_000),
  blockedUs: blocked(100, 400),
  blockSecondsHeld: { producer: 10, consumer: 6 },
} as unknown as RunEntry
const pull: RunEntry = {
  ...inline,
  ...{ label: 'pull', options: {}, blockedUs: blocked(30, 0), firstPostMs: at(8) },
}
const push: RunEntry = {
  ...inline,
  ...{ connector: 'push', label: 'push', options: {} },
  ...{ ttftMs: at(40), firstPostMs: at(2), pathLessWireMs: at(1), blockedUs: blocked(20, 80) },
  ...{ blockSecondsHeld: { producer: 4, consumer: 12 } },
}
/** `tiny` has 1 KiB a token: a chunk is 256 KiB. */
const progressive: RunEntry = {
  ...push,
  ...{ label: 'push-progressive', options: { progressive: true } },
  criticalBytes: at(1.5 * 262_144),
}

const noise: NoiseFloor = {
  method: 'split-half',
  label: 'pull',
  metrics: {
    'ttftMs.p50': { a: 1, b: 1.1, relativeDifference: 0.1 },
    'tpotMs.p50': { a: 1, b: 1.02, relativeDifference: 0.02 },
  },
}
const short: BarSurroundings = {
  ...{ agent: 'nixl', noise, promptTokens: [1, 256] },
  engine: { model: 'tiny', kvScale: 1, maxNumBatchedTokens: 256 },
}
const long: BarSurroundings = { ...short, promptTokens: [1_793, 2_048] }

const barsOf = (runs: readonly RunEntry[], surroundings = short): Bar[] =>
  compareBars(runs, surroundings)
const named = (bars: readonly Bar[], rule: RegExp): Bar => {
  const found = bars.filter((bar) => rule.test(`${bar.subject}: ${bar.rule}`))
  expect(found, String(rule)).toHaveLength(1)
  return found[0] as Bar
}
const verdictsOf = (bars: readonly Bar[]): string[] => [
  ...new Set(bars.map(({ verdict }) => verdict)),
]

describe('bars of push against pull', () => {
  it('hold at their limits, against each posting that ran', () => {
    const bars = barsOf([inline, pull, push])
    expect(bars.filter(({ verdict }) => verdict !== 'held')).toEqual([])
    expect(bars.map(({ subject, rule }) => `${subject}: ${rule}`)).toEqual([
      "push: TTFT p50 not worse than pull-inline's beyond noise",
      "push: TPOT p50 not worse than pull-inline's beyond noise",
      "push: prefill's end → first post, p50, at most 1/5 of pull-inline's",
      "push: D's thread blocked by transfer work, p50, at most 1/5 of pull-inline's",
      "push: D's thread blocked by descriptor work, p50, at most 1/5 of pull-inline's",
      "push: D's thread blocked by the copy, p50, at most 1/5 of pull-inline's",
      'push: P holds blocks for less long than with pull-inline',
      'pull-inline: D holds blocks for less long than with push',
      "push: TTFT p50 not worse than pull's beyond noise",
      "push: TPOT p50 not worse than pull's beyond noise",
      "push: prefill's end → first post, p50, at most 1/2 of pull's",
      'push: P holds blocks for less long than with pull',
      'pull: D holds blocks for less long than with push',
      'push: KV critical path without the wire, p50, at most 1 ms',
    ])
  })

  it.each<[RegExp, Partial<RunEntry>]>([
    [/TTFT.*pull-inline's/, { ttftMs: at(55.1) }],
    [/TPOT.*pull-inline's/, { tpotMs: at(9.19) }],
    [/first post.*1\/5/, { firstPostMs: at(2.01) }],
    [/first post.*1\/2/, { firstPostMs: at(4.01) }],
    [/by transfer work/, { blockedUs: blocked(21, 80) }],
    [/by descriptor work/, { blockedUs: blocked(21, 70) }],
    [/by the copy/, { blockedUs: blocked(10, 81) }],
    [/P holds.*with pull-inline/, { blockSecondsHeld: { producer: 10, consumer: 12 } }],
    [/pull-inline: D holds/, { blockSecondsHeld: { producer: 4, consumer: 6 } }],
    [/without the wire/, { pathLessWireMs: at(1.01) }],
  ])('%s is missed by %j', (rule, worse) => {
    expect(named(barsOf([inline, pull, { ...push, ...worse }]), rule).verdict).toBe('missed')
  })

  it('allow as much as the noise floor, and say how much that is', () => {
    const bar = named(barsOf([pull, { ...push, ttftMs: at(55) }]), /TTFT/)
    expect(bar).toMatchObject({ verdict: 'held', value: 55, limit: 55 })
    expect(bar.note).toContain('A-A noise 10.0 %')
  })

  it('leave latency to other measurements where a prompt has more than one chunk', () => {
    const bars = barsOf([inline, push], { ...short, promptTokens: [257] })
    expect(bars.filter(({ rule }) => /TTFT|TPOT/.test(rule))).toEqual([])
    expect(bars).toHaveLength(7)
  })

  it('say where the copy is part of the post, and judge none where nothing is copied', () => {
    const rule = /by the copy/
    expect(named(barsOf([inline, push]), rule).note).toContain('pull-inline copies inside its post')
    const remote = { ...inline, blockedUs: blocked(100, 0) }
    const bar = named(barsOf([remote, push]), rule)
    expect(bar.verdict).toBe('not-judged')
    expect(bar.note).not.toContain('copies')
  })

  it('compare only what differs in nothing else', () => {
    const additive = { ...pull, label: 'pull-additive', hooks: 'additive' }
    const slabs = { ...pull, label: 'pull-slabs', options: { path: 'slabs' } }
    expect(barsOf([additive, slabs, push]).map(({ rule }) => rule)).toEqual([
      'KV critical path without the wire, p50, at most 1 ms',
    ])
  })

  it('are none without push', () => {
    expect(barsOf([inline, pull, { ...push, connector: 'xavier' }])).toEqual([])
  })
})

describe('bars of sending in chunks', () => {
  const chunkRule = /^push-progressive: bytes on the critical path/
  const plainRule = /^push-progressive: TTFT p50 not worse than push's beyond noise/

  it('hold at their limits', () => {
    const bars = barsOf([push, { ...progressive, ttftMs: at(44) }], long)
    expect(verdictsOf(bars)).toEqual(['held'])
    expect(named(bars, chunkRule)).toMatchObject({ value: 1.5, limit: 1.5 })
    expect(named(bars, chunkRule).note).toContain('prompts of 8 chunks or more')
    expect(named(bars, plainRule).value).toBe(44)
  })

  it('are missed by a byte more, and by more than noise', () => {
    const worse = { ...progressive, criticalBytes: at(1.5 * 262_144 + 1), ttftMs: at(44.1) }
    const bars = barsOf([push, worse], long)
    expect(named(bars, chunkRule).verdict).toBe('missed')
    expect(named(bars, plainRule).verdict).toBe('missed')
  })

  it('want eight chunks of the shortest prompt', () => {
    const bars = barsOf([push, progressive], { ...long, promptTokens: [1_792, 2_048] })
    expect(named(bars, chunkRule)).toMatchObject({ verdict: 'not-judged', value: null })
    expect(named(bars, chunkRule).note).toContain('the shortest prompt has 7 chunks, 8 are wanted')
    expect(named(bars, plainRule).verdict).toBe('held')
  })

  it('know a scaled model', () => {
    const engine = { ...long.engine, kvScale: 2 }
    expect(named(barsOf([progressive], { ...long, engine }), chunkRule).value).toBe(3)
  })
})

describe('bars of this build against another', () => {
  const build = { name: 'before', commit: null }
  const before: RunEntry = { ...pull, label: 'pull@before', build }

  it('allow as much as the noise floor, for the same choice only', () => {
    const noisePath = { a: 1, b: 1.05, relativeDifference: 0.05 }
    const metrics = { ...noise.metrics, 'criticalPathMs.p50': noisePath }
    const surroundings = { ...short, noise: { ...noise, metrics } }
    const worst = { ttftMs: at(55), tpotMs: at(9.18), criticalPathMs: at(12.6) }
    const runs = [{ ...pull, ...worst }, before, inline, { ...inline, hooks: 'additive', build }]
    const bars = barsOf(runs, surroundings)
    expect(bars.map(({ subject, rule }) => `${subject}: ${rule}`)).toEqual([
      "pull: TTFT p50 not worse than pull@before's beyond noise",
      "pull: TPOT p50 not worse than pull@before's beyond noise",
      "pull: KV critical path p50 not worse than pull@before's beyond noise",
    ])
    expect(verdictsOf(bars)).toEqual(['held'])
    const worse = { ttftMs: at(55.1), tpotMs: at(9.19), criticalPathMs: at(12.61) }
    const missed = barsOf([{ ...pull, ...worse }, before], surroundings)
    expect(verdictsOf(missed)).toEqual(['missed'])
    const busy = { ...before, utilisation: { producer: 0.9, consumer: 0.1 } }
    expect(verdictsOf(barsOf([pull, busy], surroundings))).toEqual(['not-judged'])
  })

  it('do not judge the other one, and compare push with no pull of it', () => {
    const old = { ...push, label: 'push@before', build, pathLessWireMs: at(5) }
    const bars = barsOf([push, old, before])
    expect(bars.map(({ subject }) => subject)).toEqual(['push', 'push', 'push', 'push'])
    expect(bars.map(({ rule }) => rule)).toContain(
      "TTFT p50 not worse than push@before's beyond noise",
    )
  })
})

describe('bars are left open', () => {
  it('where one of the two was outside the overrun guard, the others not', () => {
    const bars = barsOf([inline, { ...pull, valid: false }, push])
    const open = bars.filter(({ verdict }) => verdict === 'not-judged')
    expect(open).toHaveLength(5)
    for (const { note, value } of open) {
      expect(note).toContain('outside the overrun guard: pull')
      expect(value).not.toBeNull()
    }
    expect(verdictsOf(bars.filter((bar) => !open.includes(bar)))).toEqual(['held'])
  })

  it('where an engine was busier than 80 %, and name it', () => {
    const busy = { ...push, utilisation: { producer: 0.801, consumer: 0.1 } }
    const bars = barsOf([inline, pull, busy])
    expect(verdictsOf(bars)).toEqual(['not-judged'])
    expect(bars[0]?.note).toContain('an engine busy for more than 80.0 %: push 80.1 %')
  })

  it('with the in-memory agent', () => {
    const bars = barsOf([inline, pull, push], { ...short, agent: 'memory' })
    expect(verdictsOf(bars)).toEqual(['not-judged'])
    expect(bars[0]?.note).toContain('in-memory agent')
  })
})

describe('a comparison', () => {
  const { signal } = new AbortController()

  /** Of two fakes that are the same program. With cores to spare: the share of the CPU is this machine's. */
  async function compareAlike(connectors: string): Promise<CompareResult> {
    const configurations = await resolveConfigurations({
      connectors: parseConnectorList(connectors),
      ...{ posting: 'inline', options: {}, hooks: ['after-launch'] },
    })
    return runCompare(
      {
        preset: { ...presets.quick, requestCount: 20, qps: 400 },
        ...{ seed: 1, configurations, agent: 'nixl', prefixCaching: 'off', nixl: null },
        deviceTier: 'none',
      },
      {
        ...{ clock: createSystemClock(), progress: silentProgress, signal, cores: 1_000 },
        startCluster: processClusters({
          ...{ engineBin: fakePaths.engine, routerBin: fakePaths.router, logDirectory: null },
          debugEndpoints: false,
        }),
      },
    )
  }

  it('warns of a missed bar, writes all of them down, and shows them', async () => {
    const result = await compareAlike('pull,push')
    assertMatchesSchema('compare', result)
    expect(result.bars).toHaveLength(9)
    const count = (of: string) => result.bars.filter(({ verdict }) => verdict === of).length
    // Nothing is five times as fast as itself.
    expect(count('missed')).toBeGreaterThanOrEqual(3)
    const { ok, warnings } = result.verdict
    // How noisy this machine is nobody knows.
    expect([ok, warnings.length]).toEqual([true, count('missed') + count('too-noisy')])
    const rule = "push: bar missed: prefill's end → first post"
    expect(warnings).toContainEqual(expect.stringContaining(rule))
    const text = renderResult(result)
    expect(text).toMatch(/MISSED +push: prefill's end → first post/)
    expect(text).toMatch(/P \/ D busy, % +│ – \/ \d+\.\d +│ \d+\.\d \/ \d+\.\d +│/)
    expect(text).toContain(`warning: ${rule}`)
    expect(renderCompareReport(result)).toMatch(/<h2>Bars<\/h2>/)
  })

  it('says why there are no bars where there are none', async () => {
    const result = await compareAlike('pull')
    expect(result.bars).toEqual([])
    expect(renderResult(result)).toContain('No bars to judge')
    const html = renderCompareReport(result)
    expect(html).toContain('No bars to judge')
    expect(html).not.toContain('<h2>Bars</h2>')
  })
})
