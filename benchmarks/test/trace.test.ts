import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { HistoryPolicyName } from '@kvferry/connector-api'
import { afterAll, describe, expect, test } from 'vitest'
import { main } from '../src/main.ts'
import { readTrace } from '../src/trace/read-trace.ts'
import { replayTrace, type Replay } from '../src/trace/replay.ts'
import { createSyntheticTrace } from '../src/trace/synthetic-trace.ts'
import type { TraceResult } from '../src/trace/result.ts'
import type { TraceRequest } from '../src/trace/trace-request.ts'
import { describeTrace } from '../src/trace/trace-shape.ts'

const folder = mkdtempSync(join(tmpdir(), 'kvferry-trace-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

async function bench(...argv: string[]) {
  let stdout = ''
  let stderr = ''
  const exitCode = await main(argv, {
    stdout: { write: (text) => (stdout += text) },
    stderr: { write: (text) => (stderr += text) },
    signal: new AbortController().signal,
  })
  return { exitCode, stdout, stderr }
}

function fileOf(text: string): string {
  const path = join(folder, 'trace.jsonl')
  writeFileSync(path, text)
  return path
}

const request = (timestampMs: number, ...blockIds: number[]): TraceRequest => ({
  ...{ timestampMs, inputLength: 512 * blockIds.length, outputLength: 1 },
  blockIds: Uint32Array.from(blockIds),
})

const replayOptions = {
  ...{ deviceCapacity: 1, hostCapacity: 1, blockSizeBytes: 10, probationKeyCountMax: Infinity },
  signal: new AbortController().signal,
  onProgress() {},
}

describe('replayTrace', () => {
  test('counts hits of prefixes and what was written where', async () => {
    const trace = [request(0, 1), request(5, 2), request(5, 1, 2), request(9, 3)]
    const { hits, deviceHits, references, writtenBlocks } = await replayTrace(trace, {
      ...{ ...replayOptions, policy: 'copy-on-eviction' },
    })
    // 1 came from host memory; 2 behind it from the device; 3 pushed one of them out.
    expect({ hits, deviceHits, references }).toEqual({ hits: 2, deviceHits: 1, references: 5 })
    expect(writtenBlocks).toEqual({ device: 3, host: 2 })
  })

  test('a block behind a gap is no hit', async () => {
    const trace = [request(0, 1), request(5, 9, 1)]
    expect((await replayTrace(trace, { ...replayOptions, policy: 'write-through' })).hits).toBe(0)
  })

  test('the bounds that protect an engine are lifted: a prompt of a thousand blocks is kept whole', async () => {
    const ids = Array.from({ length: 1_000 }, (_, index) => index)
    const { hits } = await replayTrace([request(0, ...ids), request(9_000, ...ids)], {
      ...{ ...replayOptions, policy: 'observed-reuse', deviceCapacity: 500, hostCapacity: 500 },
      blockSizeBytes: 6_291_456,
    })
    expect(hits).toBe(1_000)
  })

  test(
    'ranks the policies by what they write, and copies on eviction hit most',
    { timeout: 120_000 },
    async () => {
      const trace = createSyntheticTrace(1_500, 7)
      const { uniqueBlocks } = describeTrace(trace)
      const run = (policy: HistoryPolicyName) =>
        replayTrace(trace, {
          ...{ ...replayOptions, policy },
          deviceCapacity: Math.floor(0.05 * uniqueBlocks),
          hostCapacity: Math.floor(0.2 * uniqueBlocks),
        })
      const through = await run('write-through')
      const evict = await run('copy-on-eviction')
      const reuse = await run('observed-reuse')
      const perWrite = ({ hits, writtenBlocks: { device, host } }: Replay) => hits / (device + host)
      expect(reuse.hits).toBeLessThan(evict.hits)
      expect(through.hits).toBeLessThanOrEqual(evict.hits)
      expect(reuse.writtenBlocks.host).toBeLessThan(0.6 * evict.writtenBlocks.host)
      expect(evict.writtenBlocks.host).toBeLessThan(through.writtenBlocks.host)
      expect(perWrite(reuse)).toBeGreaterThan(perWrite(evict))
      expect(perWrite(evict)).toBeGreaterThan(perWrite(through))
    },
  )
})

describe('the synthetic trace', () => {
  test('has the shape of the published one', () => {
    const shape = describeTrace(createSyntheticTrace(12_031, 1))
    const within = (value: number | null, low: number, high: number) => {
      expect(value).toBeGreaterThan(low)
      expect(value).toBeLessThan(high)
    }
    // Published: 3,537 s, 23.98 blocks a request, 0.758, 0.366, 114 s, 519 s, 1,578 s, 6,909, 27,367.
    within(shape.durationMs, 3_300_000, 3_750_000)
    within(shape.blockReferences / shape.requests, 21.6, 26.4)
    within(shape.touchedOnceShare, 0.72, 0.8)
    within(shape.hitRatioUnbounded, 0.33, 0.4)
    within(shape.reuseGapMs.p50, 97_000, 131_000)
    within(shape.reuseGapMs.p90, 440_000, 600_000)
    within(shape.reuseGapMs.p99, 1_100_000, 2_000_000)
    within(shape.inputTokens.p50, 5_500, 8_300)
    within(shape.inputTokens.p90, 23_000, 32_000)
  })

  test('is the same for the same seed, and another for another', () => {
    expect(createSyntheticTrace(200, 3)).toEqual(createSyntheticTrace(200, 3))
    expect(createSyntheticTrace(200, 3)).not.toEqual(createSyntheticTrace(200, 4))
  })
})

const published = process.env['KVFERRY_TRACE']
const reason = 'the published conversation trace: name it in KVFERRY_TRACE'
test.skipIf(published === undefined || !existsSync(published))(
  `the reader finds the published figures (${reason})`,
  async () => {
    const shape = describeTrace(await readTrace(published!))
    expect(shape).toMatchObject({
      requests: 12_031,
      blockReferences: 288_500,
      uniqueBlocks: 182_790,
    })
    expect(shape.touchedOnceShare).toBeCloseTo(0.758, 3)
    expect(shape.hitRatioUnbounded).toBeCloseTo(0.366, 3)
  },
)

describe('readTrace', () => {
  const line = '{"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [0, 1]}'

  test('reads lines, empty ones too', async () => {
    expect(await readTrace(fileOf(`${line}\n\n${line}\n`))).toEqual([
      { timestampMs: 0, inputLength: 600, outputLength: 5, blockIds: Uint32Array.of(0, 1) },
      { timestampMs: 0, inputLength: 600, outputLength: 5, blockIds: Uint32Array.of(0, 1) },
    ])
  })

  test.each([
    ['', /no request in it/],
    ['nonsense', /trace.jsonl:1: no JSON/],
    [line.replace('600', '-1'), /:1: input_length is -1/],
    [line.replace('"timestamp": 0', '"time": 0'), /timestamp is undefined/],
    [line.replace('[0, 1]', '[0, -1]'), /hash_ids is no list/],
    [line.replace('[0, 1]', '7'), /hash_ids is no list/],
    [`${line.replace('"timestamp": 0', '"timestamp": 9')}\n${line}`, /:2: timestamp 0 is before 9/],
  ])('refuses %j', async (text, message) => {
    await expect(readTrace(fileOf(text))).rejects.toThrow(message)
  })
})

describe('kvferry-bench trace', () => {
  test('writes a result that keeps to its schema, and says the same on the screen', async () => {
    const json = join(folder, 'result.json')
    const common = ['trace', '--requests', '100', '--capacity', '5+20', '--seed', '2']
    const { exitCode, stdout } = await bench(...common, '--json', json)
    expect(exitCode).toBe(0)
    const result = JSON.parse(readFileSync(json, 'utf8')) as TraceResult
    expect(result.runs.map(({ label }) => label)).toEqual([
      'observed-reuse',
      'copy-on-eviction',
      'write-through',
    ])
    expect(result.workload).toMatchObject({ source: 'synthetic', requests: 100 })
    for (const run of result.runs) expect(stdout).toContain(run.hitRatio.toFixed(3))
  })

  test.each([
    [['--policy', 'lru'], /--policy lru: use one of observed-reuse/],
    [['--capacity', '5'], /--capacity 5: use DEVICE\+HOST/],
    [['--capacity', '5+200'], /--capacity 200: use a number from 0 to 100/],
    [['--trace', join(folder, 'absent')], /trace .*absent: ENOENT/],
    [['--block-bytes', '1.5'], /--block-bytes 1.5: use a whole number/],
  ])('refuses %j', async (flags, message) => {
    const { exitCode, stderr } = await bench('trace', ...flags)
    expect(stderr).toMatch(message)
    expect(stderr.trim().split('\n').length).toBe(1)
    expect(exitCode).toBe(2)
  })
})
