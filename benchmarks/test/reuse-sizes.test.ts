/** The sizes of the reuse experiments: the published ratios, and where the hot set ends up in tiers of them. */
import { describe, expect, it } from 'vitest'
import { historyLimits } from '@kvferry/kv-history'
import { blockCountsFor } from '../src/commands/engine-flags.ts'
import { clearlyFewerShare } from '../src/reuse/counter-checks.ts'
import { blockCountMax, documentTokensOf, reuseGeometry } from '../src/reuse/geometry.ts'
import { planReuse, pressureCount, targetCount, workingSets } from '../src/reuse/plan.ts'
import {
  historySizingOf,
  reuseEngine,
  reusePresets,
  type ReusePreset,
} from '../src/reuse/presets.ts'
import { replayTrace } from '../src/trace/replay.ts'

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
