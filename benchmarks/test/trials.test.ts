/**
 * Several trials, as in `full`: their order, what is pooled, what stands beside it, and A-A. The fake
 * programs are started once and lent to every trial.
 */
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createSystemClock } from '@kvferry/runtime'
import type { Cluster, ClusterSpec, StartCluster } from '../src/compare/cluster.ts'
import { runCompare } from '../src/compare/compare.ts'
import { presets, type Preset } from '../src/compare/presets.ts'
import { processClusters } from '../src/compare/process-cluster.ts'
import type { CompareResult } from '../src/compare/result.ts'
import { silentProgress } from '../src/lib/progress.ts'
import { assertMatchesSchema } from '../src/lib/result-schema.ts'

const fixture = (name: string): string =>
  fileURLToPath(new URL(`fixtures/${name}`, import.meta.url))
const { signal } = new AbortController()
const configurations = ['a', 'b'].map((label) => ({
  connector: 'fake',
  options: {},
  hooks: 'after-launch' as const,
  label,
}))
const preset: Preset = { ...presets.full, requestCount: 12, qps: 400, trials: 2 }

const started: Cluster[] = []
const asked: string[] = []
let result: CompareResult

async function startLent(): Promise<StartCluster> {
  const start = processClusters({
    engineBin: fixture('fake-engine.mjs'),
    routerBin: fixture('fake-router.mjs'),
    logDirectory: null,
    debugEndpoints: false,
  })
  const spec: ClusterSpec = {
    name: 'lent',
    configuration: null,
    shape: preset.engine,
    prefixCaching: 'off',
  }
  const oracle = await start(spec, signal)
  started.push(oracle)
  const pair = await start({ ...spec, configuration: configurations[0] ?? null }, signal)
  started.push(pair)
  return async ({ name, configuration }) => {
    asked.push(name)
    return { ...(configuration ? pair : oracle), close: async () => {} }
  }
}

beforeAll(async () => {
  result = await runCompare(
    {
      preset,
      seed: 1,
      configurations,
      agent: 'nixl',
      prefixCaching: 'off',
      nixl: null,
      deviceTier: 'none',
    },
    {
      clock: createSystemClock(),
      progress: silentProgress,
      signal,
      startCluster: await startLent(),
      cores: 2,
    },
  )
})

afterAll(async () => {
  await Promise.all(started.map((cluster) => cluster.close()))
})

describe('several trials', () => {
  it('take turns, each in a cluster of its own, with the first configuration again', () => {
    const turns = ['a-1', 'b-1', 'a-again-1', 'a-2', 'b-2', 'a-again-2']
    expect(asked).toEqual(['oracle', ...turns])
    expect(result.runs.map((run) => run.label)).toEqual(['oracle', 'a', 'b'])
  })

  it('are pooled, with each trial and the spread beside it', () => {
    const run = result.runs[1]
    const [first, second] = run?.trials ?? []
    expect(run?.trials.map(({ trial }) => trial)).toEqual([1, 2])
    expect(run?.e2elMs.count).toBe(24)
    expect(run?.requests).toBe(2 * (12 + preset.burstCount))
    const medians = [first?.ttftMs.p50 as number, second?.ttftMs.p50 as number]
    expect(run?.spread.ttftMs.p50).toEqual({ min: Math.min(...medians), max: Math.max(...medians) })
  })

  it('have a noise floor from the same configuration twice', () => {
    expect(result.noiseFloor).toMatchObject({ method: 'repeated-run', label: 'a' })
    expect(result.noiseFloor.metrics['e2elMs.p50']?.relativeDifference).toBeGreaterThanOrEqual(0)
  })

  it('fit the schema', () => {
    expect(() => assertMatchesSchema('compare', result)).not.toThrow()
  })
})
