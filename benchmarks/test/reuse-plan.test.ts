/** The published protocols, and which runs a list of connectors becomes. */
import { describe, expect, it } from 'vitest'
import type { Configuration } from '../src/compare/configuration.ts'
import { plannedRequests } from '../src/experiments/experiment-trial.ts'
import { reuseGeometry } from '../src/reuse/geometry.ts'
import { createDocument, planReuse, type WorkingSet } from '../src/reuse/plan.ts'
import { reusePresets } from '../src/reuse/presets.ts'
import { reuseRuns } from '../src/reuse/runs-of.ts'

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
