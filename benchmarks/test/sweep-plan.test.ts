/** What a sweep does before it measures: points, names, schedules, and what may stand beside one another. */
import { describe, expect, it } from 'vitest'
import { parseSweepFlags, type SweepFlags } from '../src/commands/sweep-options.ts'
import { firstDifference, type SweepConditions } from '../src/sweep/conditions.ts'
import { parsePointName, pointName, pointsOf } from '../src/sweep/grid.ts'
import { createPointSchedule } from '../src/sweep/point-schedule.ts'
import { sweepPresets } from '../src/sweep/presets.ts'

const flags = (more: Partial<SweepFlags> = {}): SweepFlags => ({
  url: [],
  preset: 'quick',
  posting: 'both',
  option: [],
  hooks: 'after-launch',
  resultsDir: 'results',
  seed: '1',
  prefixCaching: 'off',
  agent: 'nixl',
  ...more,
})

describe('points', () => {
  const point = { qps: 0.5, inputTokens: 1_024, outputTokens: 128, iteration: 2 }

  it('are named as the published scripts name them, and back', () => {
    expect(pointName('push-progressive', point)).toBe('push-progressive_qps0.5_in1024_out128_iter2')
    expect(parsePointName('push_x_qps0.5_in1024_out128_iter2.json')).toEqual({
      mode: 'push_x',
      point,
    })
    expect(parsePointName('push_qps0.5_in1024_out128_iter2.log')).toBeNull()
    expect(parsePointName('summary.json')).toBeNull()
  })

  it('go once through the whole grid before any comes again', () => {
    const points = pointsOf({ qps: [1, 2], inputTokens: [8, 16], outputTokens: [4] }, 2)
    expect(points.map((each) => each.iteration)).toEqual([1, 1, 1, 1, 2, 2, 2, 2])
    expect(points[1]).toEqual({ qps: 2, inputTokens: 8, outputTokens: 4, iteration: 1 })
  })

  it('of push-text are those of the text', () => {
    const { grid, engine } = sweepPresets['push-text']
    expect(grid).toEqual({
      qps: [1, 2, 4, 8],
      inputTokens: [1_024, 2_048, 4_096, 8_192, 16_384],
      outputTokens: [128],
    })
    expect(engine.maxNumSeqs).toBe(8)
    expect(parseSweepFlags(flags({ preset: 'push-text' })).prefixCaching).toBe('off')
  })
})

describe('the schedule of a point', () => {
  const point = { qps: 10, inputTokens: 64, outputTokens: 4, iteration: 1 }
  const options = { seed: 7, point, requestCount: 50, warmUpCount: 3 }
  const prompts = (more: Partial<typeof options> = {}): string[] =>
    createPointSchedule({ ...options, ...more }).map(({ prompt }) => prompt)

  it('is the same for whoever asks, with the handshake and the warm-up apart', () => {
    const schedule = createPointSchedule(options)
    expect(createPointSchedule(options)).toEqual(schedule)
    expect(schedule.filter(({ phase }) => phase === 'first')).toHaveLength(1)
    expect(schedule.filter(({ phase }) => phase === 'warm-up')).toHaveLength(3)
    const measured = schedule.filter(({ phase }) => phase === 'measured')
    expect(measured).toHaveLength(50)
    expect(measured.every(({ prompt, isStream }) => prompt.length === 64 && isStream)).toBe(true)
    // Poisson at 10/s: the last of 50 arrives after about 5 s.
    expect(measured.at(-1)?.atMs).toBeGreaterThan(2_500)
    expect(measured.at(-1)?.atMs).toBeLessThan(10_000)
  })

  it('has no prompt twice, in no other point, iteration or seed', () => {
    const all = [
      prompts(),
      prompts({ point: { ...point, iteration: 2 } }),
      prompts({ point: { ...point, qps: 11 } }),
      prompts({ seed: 8 }),
    ].flat()
    expect(new Set(all).size).toBe(all.length)
  })
})

describe('conditions', () => {
  const conditions = (more: Partial<SweepConditions> = {}): SweepConditions => ({
    seed: 1,
    grid: sweepPresets.quick.grid,
    requests: 10,
    warmUp: 1,
    prefixCaching: 'off',
    agent: 'nixl',
    engine: { ...sweepPresets.quick.engine },
    environment: {
      commit: 'abc',
      packages: { '@kvferry/router': '0.1.0' },
      nixl: '1.5.1',
      ucx: '1.19',
      cpu: { model: 'x', cores: 2 },
      memoryBytes: 1,
      kernel: '6.1',
      gpu: [],
      node: 'v22',
      deviceTier: 'host memory',
    },
    ...more,
  })

  it('agree with themselves', () => {
    expect(firstDifference(conditions(), conditions())).toBeNull()
  })

  it.each([
    ['seed', { seed: 2 }, 'seed'],
    ['grid', { grid: { ...sweepPresets.quick.grid, qps: [1] } }, 'grid.qps'],
    ['engine', { engine: { ...sweepPresets.quick.engine, kvScale: 2 } }, 'engine.kvScale'],
    ['machine', { environment: { ...conditions().environment, node: 'v24' } }, 'environment.node'],
    ['packages', { environment: { ...conditions().environment, packages: {} } }, 'packages'],
  ])('that differ are named: %s', (_name, more, field) => {
    expect(firstDifference(conditions(more), conditions())?.field).toContain(field)
  })

  it('of engines and of servers by URL agree in what both know', () => {
    const url = conditions({
      agent: null,
      engine: null,
      environment: { ...conditions().environment, nixl: null, ucx: null, deviceTier: 'unknown' },
    })
    expect(firstDifference(conditions(), url)).toBeNull()
    expect(firstDifference(conditions({ seed: 2 }), url)?.field).toBe('seed')
  })
})

describe('sweep flags', () => {
  it('override the preset', () => {
    const { preset } = parseSweepFlags(
      flags({
        ...{ qps: '0.5,1', inputLens: '128,1k', maxModelLen: '2048', kvScale: '2' },
        maxNumBatchedTokens: '256',
      }),
    )
    expect(preset.grid).toMatchObject({ qps: [0.5, 1], inputTokens: [128, 1_024] })
    expect(preset.engine).toMatchObject({
      ...{ kvScale: 2, maxModelLen: 2_048, maxNumBatchedTokens: 256 },
    })
  })

  it('take servers by URL, alone unless connectors are named too', () => {
    const url = ['push=http://127.0.0.1:8000/v1/']
    expect(parseSweepFlags(flags({ url }))).toMatchObject({
      connectors: [],
      urls: [{ label: 'push', url: 'http://127.0.0.1:8000' }],
    })
    expect(parseSweepFlags(flags({ url, connectors: 'pull' })).connectors).toHaveLength(1)
  })

  it.each<[Partial<SweepFlags>, RegExp]>([
    [{ preset: 'huge' }, /--preset huge: use one of quick, push-text/],
    [{ qps: '1,0' }, /--qps 0: use a number from 0.01/],
    [{ qps: '1,1' }, /--qps 1,1: 1 is there twice/],
    [{ inputLens: '1m' }, /--input-lens 1m/],
    [{ inputLens: '2k' }, /2064 tokens with the output exceed --max-model-len 1024/],
    [{ numBlocks: '8' }, /--num-blocks 8: blocks of 16 tokens hold 128/],
    [{ blockSize: '2048' }, /--block-size 2048: use a number from 1 to 1024/],
    [{ maxNumBatchedTokens: '0' }, /--max-num-batched-tokens 0: use a number from 1/],
    [{ maxNumSeqs: '2000' }, /--max-num-seqs 2000: use a number from 1 to 1024/],
    [{ url: ['http://x'] }, /--url http:\/\/x: write LABEL=URL/],
    [{ url: ['a=ftp://x'] }, /--url a=ftp/],
    [{ iterations: '0' }, /--iterations 0/],
    [{ timeScale: 'x' }, /--time-scale x/],
  ])('refuse %j', (more, message) => {
    expect(() => parseSweepFlags(flags(more))).toThrow(message)
  })
})
