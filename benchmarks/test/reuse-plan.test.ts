/** The published protocols, their sizes, and which runs a list of connectors becomes. */
import { describe, expect, it } from 'vitest'
import { historyLimits } from '@kvferry/kv-history'
import { blockCountsFor } from '../src/commands/engine-flags.ts'
import type { Configuration } from '../src/compare/configuration.ts'
import { plannedRequests } from '../src/experiments/experiment-trial.ts'
import { clearlyFewerShare } from '../src/reuse/counter-checks.ts'
import { blockCountMax, documentTokensOf, reuseGeometry } from '../src/reuse/geometry.ts'
import {
  createDocument,
  planReuse,
  pressureCount,
  targetCount,
  workingSets,
  type WorkingSet,
} from '../src/reuse/plan.ts'
import {
  historySizingOf,
  reuseEngine,
  reusePresets,
  type ReusePreset,
} from '../src/reuse/presets.ts'
import { reuseRuns } from '../src/reuse/runs-of.ts'
import { replayTrace } from '../src/trace/replay.ts'

const planOf = (workingSet: WorkingSet, cycles: number, settlingCycles = 0) =>
  planReuse({
    ...{ workingSet, cycles, concurrency: 1, documentTokens: 200, outputTokens: 4 },
    ...{ blockTokens: 16, seed: 1, settlingCycles },
  })

const promptsOf = (workingSet: WorkingSet, cycles: number, kind: string): string[][] =>
  planOf(workingSet, cycles)
    .steps.filter((step) => step.kind === kind)
    .map(({ requests }) => requests.map(({ prompt }) => prompt))

describe('the plan', () => {
  it.each([
    ['hot', 6, 125],
    ['changing', 3, 73],
    ['capacity-tier', 10, 132],
  ] as const)('%s has the published number of requests', (workingSet, cycles, count) => {
    const requests = plannedRequests(planOf(workingSet, cycles))
    expect(requests).toHaveLength(count)
    expect(requests.map(({ index }) => index)).toEqual(requests.map((_, i) => i))
    expect(requests.every(({ isStream }) => isStream)).toBe(true)
  })

  it('full has at least 200 revisits of the hot set', () => {
    const { cycles, trials } = reusePresets.full
    expect(4 * cycles.hot * trials).toBeGreaterThanOrEqual(200)
  })

  it('hot: the same four documents in every cycle, pressure never twice', () => {
    const [initial] = promptsOf('hot', 3, 'initial')
    expect(promptsOf('hot', 3, 'immediate')).toEqual([initial, initial, initial])
    expect(promptsOf('hot', 3, 'revisit')).toEqual([initial, initial, initial])
    const pressure = promptsOf('hot', 3, 'pressure').flat()
    expect(pressure).toHaveLength(36)
    expect(new Set(pressure).size).toBe(36)
  })

  it('hot, settling: whole cycles before the measured ones, with pressure of their own', () => {
    const settled = planOf('hot', 1, 2).steps
    expect(settled.map(({ kind, cycle }) => `${kind} ${cycle}`)).toEqual([
      ...['initial 0', ...Array<string>(6).fill('settling 0')],
      ...['immediate 1', 'pressure 1', 'revisit 1'],
    ])
    const promptsAt = (index: number) => settled[index]?.requests.map(({ prompt }) => prompt) ?? []
    for (const index of [1, 3, 4, 6]) expect(promptsAt(index)).toEqual(promptsAt(0))
    const pressure = [2, 5, 8].flatMap(promptsAt)
    expect(new Set(pressure).size).toBe(36)
    expect(planOf('changing', 1, 2).steps).toEqual(planOf('changing', 1).steps)
  })

  it('changing: new targets in each cycle, revisited in the same one', () => {
    const initial = promptsOf('changing', 3, 'initial')
    expect(new Set(initial.flat()).size).toBe(12)
    expect(promptsOf('changing', 3, 'immediate')).toEqual(initial)
    expect(promptsOf('changing', 3, 'revisit')).toEqual(initial)
  })

  it('no two documents share their first block', () => {
    const documents = new Set(
      ['hot', 'changing'].flatMap((set) =>
        plannedRequests(planOf(set as WorkingSet, 9)).map(({ prompt }) => prompt),
      ),
    )
    expect(new Set([...documents].map((text) => text.slice(0, 16))).size).toBe(documents.size)
  })

  it('documents have the length that was asked for, and begin and end as published', () => {
    const text = createDocument('7 hot 1', 4_000)
    expect(text).toHaveLength(4_000)
    expect(text).toMatch(/^7 hot 1: Water evaporates in sunlight .*Explain this process\.$/)
    expect(() => createDocument('7 hot 1', 20)).toThrow(RangeError)
  })
})

describe('the sizes', () => {
  it('are the published ones at the published capacity', () => {
    const shape = reuseEngine(reusePresets.full, 'changing')
    expect(shape.blockCount).toBe(1_024)
    expect(reuseGeometry(shape)).toEqual({
      documentTokens: 4_000,
      historyBlocks: 1_365,
      historyBytes: 1_365 * 192 * 1_024,
      hotHostBlocks: 439,
      documentBytes: 250 * 192 * 1_024,
      matchedBlocks: 2_389,
      tierDocumentTokens: 61 * 16,
      tierBudgetBytes: 5 * 192 * 1_024,
    })
  })

  const cases = Object.values(reusePresets).flatMap((preset: ReusePreset) =>
    (['hot', 'changing'] as const).map((set) => [preset.name, set, preset] as const),
  )

  it.each(cases)(
    'of %s, %s: four documents fit an engine, the pressure fits not even the matched one',
    (_name, workingSet, preset) => {
      const engine = reuseEngine(preset, workingSet)
      const { documentTokens, matchedBlocks } = reuseGeometry(
        engine,
        historySizingOf(preset, workingSet),
      )
      const { outputTokens } = preset
      const blocks = Math.ceil((documentTokens + outputTokens) / engine.blockTokens)
      expect(4 * blocks).toBeLessThanOrEqual(engine.blockCount)
      expect(12 * blocks).toBeGreaterThan(matchedBlocks)
      expect(documentTokens + outputTokens).toBeLessThanOrEqual(engine.maxModelLen)
    },
  )

  const published = cases.filter(([, set, preset]) => historySizingOf(preset, set) === 'published')

  it.each(published)('of %s, %s: have the published ratios', (_name, workingSet, preset) => {
    const engine = reuseEngine(preset, workingSet)
    const { documentTokens, historyBlocks } = reuseGeometry(engine)
    const documentBlocks = documentTokens / engine.blockTokens
    const historyCapacity = historyBlocks + engine.blockCount
    const cycleBlocks = (targetCount + pressureCount) * documentBlocks
    const ratios = [
      [documentBlocks / engine.blockCount, 250 / 1_024],
      [historyBlocks / engine.blockCount, 1_365 / 1_024],
      // Both tiers of the history, of what one cycle of the changing set brings.
      [historyCapacity / cycleBlocks, 2_389 / 4_000],
    ] as const
    for (const [ours, published] of ratios)
      expect(Math.abs(ours / published - 1)).toBeLessThan(0.01)
  })

  it.each(Object.values(reusePresets))(
    'of $name, changing: the published writer would keep at most half of a document, and of all less than the check allows',
    (preset: ReusePreset) => {
      const { documentBytes } = reuseGeometry(reuseEngine(preset, 'changing'))
      // Of 250 blocks of 192 KiB 61 came back once the tiers were full: 1,486 in all, less four whole documents.
      const keptBytes = ((1_486 - 4 * 249) / 8) * 192 * 1_024
      const keptShare = keptBytes / documentBytes
      expect(keptShare).toBeLessThan(0.5)
      // While the tiers fill, in the first of three cycles, all is kept.
      expect((1 + 2 * keptShare) / 3).toBeLessThan(clearlyFewerShare)
      // One request's limit doesn't cut the document.
      expect(documentBytes).toBeLessThanOrEqual(historyLimits.candidateSizeBytesMax)
    },
  )

  /** What a writer without a deadline keeps of the hot set, and where the revisits find it. */
  async function replayHot(hostBlocks: number, { engine, cycles, hotHistory }: ReusePreset) {
    const { documentTokens, historyBlocks } = reuseGeometry(engine, hotHistory)
    const blocksEach = Math.floor(documentTokens / engine.blockTokens)
    const plan = planReuse({
      ...{ workingSet: 'hot', cycles: cycles.hot, settlingCycles: 0, concurrency: 1 },
      ...{ documentTokens, outputTokens: 1, blockTokens: engine.blockTokens, seed: 1 },
    })
    const numbers = new Map<string, number>()
    const blockIdsOf = (prompt: string): Uint32Array => {
      if (!numbers.has(prompt)) numbers.set(prompt, numbers.size)
      const from = (numbers.get(prompt) as number) * blocksEach
      return Uint32Array.from({ length: blocksEach }, (_, i) => from + i)
    }
    // Immediate repeats are answered by the engine's own cache: the history isn't asked.
    const requests = plan.steps
      .filter(({ kind }) => kind !== 'immediate')
      .flatMap((step) => step.requests)
      .map(({ prompt }, index) => ({
        ...{ timestampMs: 1_000 * index, inputLength: documentTokens, outputLength: 1 },
        blockIds: blockIdsOf(prompt),
      }))
    const { hits, deviceHits } = await replayTrace(requests, {
      ...{ policy: 'observed-reuse', blockSizeBytes: 64 },
      ...{ deviceCapacity: historyBlocks, hostCapacity: hostBlocks },
      probationKeyCountMax: historyLimits.probationKeyCountMax,
      signal: new AbortController().signal,
      onProgress: () => undefined,
    })
    return { hits, deviceHits, revisited: cycles.hot * targetCount * blocksEach }
  }

  it.each(Object.values(reusePresets))(
    'of $name, hot: both tiers are hit, about as published, even by a writer without a deadline',
    async (preset: ReusePreset) => {
      const { engine } = preset
      const sized = await replayHot(reuseGeometry(engine).hotHostBlocks, preset)
      expect(sized.hits).toBe(sized.revisited)
      expect(Math.abs(sized.deviceHits / sized.hits - 3_414 / 5_976)).toBeLessThan(0.02)
      // Why the host's default isn't used: it takes the whole set.
      const whole = await replayHot(engine.blockCount, preset)
      expect(whole).toMatchObject({ hits: whole.revisited, deviceHits: 0 })
    },
  )

  const everyCase = Object.values(reusePresets).flatMap((preset: ReusePreset) =>
    workingSets.map((set) => [preset.name, set, preset] as const),
  )

  it.each(everyCase)('of %s, %s: grow until documents are too long', (_name, set, preset) => {
    const engine = reuseEngine(preset, set)
    const longest = (blockCount: number): number =>
      documentTokensOf(reuseGeometry({ ...engine, blockCount }), set) + preset.outputTokens
    const most = blockCountMax(engine, set, preset.outputTokens)
    expect(longest(most)).toBeLessThanOrEqual(engine.maxModelLen)
    expect(longest(most + 1)).toBeGreaterThan(engine.maxModelLen)
    expect(engine.blockCount).toBeLessThanOrEqual(most)
  })

  it.each(everyCase)(
    'of %s, %s: the smallest engine has documents with room for the longest names',
    (_name, workingSet, preset) => {
      const engine = reuseEngine(preset, workingSet)
      const { min } = blockCountsFor(engine)
      expect(min).toBeLessThanOrEqual(engine.blockCount)
      const { blockTokens } = engine
      const documentTokens = documentTokensOf(
        reuseGeometry({ ...engine, blockCount: min }),
        workingSet,
      )
      const plan = planReuse({
        ...{ workingSet, documentTokens, blockTokens, concurrency: 1, outputTokens: 1 },
        ...{ cycles: 1_000, settlingCycles: 10, seed: Number.MAX_SAFE_INTEGER },
      })
      const [{ requests } = { requests: [] }] = plan.steps
      expect(requests[0]?.prompt).toHaveLength(documentTokens)
    },
  )

  it('of 8b: blocks of 2 MiB, and a hot set that fills both tiers', () => {
    const { engine, hotHistory } = reusePresets['8b']
    const { historyBytes, historyBlocks, hotHostBlocks, documentTokens } = reuseGeometry(
      engine,
      hotHistory,
    )
    expect(historyBytes / historyBlocks).toBe(2_097_152)
    const blocksEach = Math.ceil(documentTokens / engine.blockTokens)
    expect(historyBlocks + hotHostBlocks).toBe(targetCount * blocksEach)
    expect(hotHostBlocks).toBeGreaterThan(0)
  })
})

const configuration = (label: string, options = {}): Configuration => ({
  ...{ connector: label, label, options, hooks: 'after-launch' },
})
const options = (workingSet: WorkingSet, withControls = true) => ({
  ...{ workingSet, withControls, shape: reusePresets.quick.engine },
  geometry: reuseGeometry(reusePresets.quick.engine),
})

describe('the runs', () => {
  const pull = { configuration: configuration('pull'), hasHistory: false }
  const xavier = { configuration: configuration('xavier'), hasHistory: true }
  const labels = (workingSet: WorkingSet, withControls = true) =>
    reuseRuns([xavier, pull], options(workingSet, withControls)).map(({ label }) => label)

  it('have the labels of the result files, a baseline first', () => {
    expect(labels('hot')).toEqual(['pull', 'xavier', 'xavier-no-history', 'pull-matched'])
    expect(labels('changing')).toEqual(['pull', 'xavier', 'xavier-no-history'])
    expect(labels('capacity-tier')).toEqual(['pull', 'xavier-tiny-budget', 'xavier-no-history'])
    expect(labels('hot', false)).toEqual(['pull', 'xavier'])
  })

  it('keep other options, and run a control once', () => {
    const spelt = configuration('xavier-snapshot-gpuCacheBytes=0', {
      staging: 'snapshot',
      gpuCacheBytes: 0,
    })
    const snapshot = configuration('xavier-snapshot', { staging: 'snapshot' })
    const runs = reuseRuns(
      [spelt, snapshot].map((each) => ({ configuration: each, hasHistory: true })),
      options('hot'),
    )
    expect(runs.map(({ label, configuration: { options: given } }) => [label, given])).toEqual([
      ['xavier-snapshot-no-history', { staging: 'snapshot', gpuCacheBytes: 0 }],
      [
        'xavier-snapshot',
        { staging: 'snapshot', gpuCacheBytes: 682 * 16_384, hostBlockCount: 219 },
      ],
    ])
  })

  it('size the host tier for the hot set alone, and never over what is spelt out', () => {
    const optionsOf = (given: object, workingSet: WorkingSet) =>
      reuseRuns(
        [{ configuration: configuration('xavier', given), hasHistory: true }],
        options(workingSet, false),
      ).map((run) => run.configuration.options)
    expect(optionsOf({}, 'changing')).toEqual([{ gpuCacheBytes: 682 * 16_384 }])
    expect(optionsOf({}, 'capacity-tier')).toEqual([{ gpuCacheBytes: 5 * 16_384 }])
    const spelt = { gpuCacheBytes: 1_000_000 }
    expect(optionsOf(spelt, 'hot')).toEqual([spelt])
    expect(optionsOf({ hostBlockCount: 7 }, 'hot')).toEqual([
      { hostBlockCount: 7, gpuCacheBytes: 682 * 16_384 },
    ])
  })
})
