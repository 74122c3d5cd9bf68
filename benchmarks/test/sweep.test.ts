/**
 * The whole `sweep` over fake programs: one file a point with vLLM's fields, going on where it stopped, and
 * what it refuses to mix.
 */
import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { assertMatchesSchema } from '../src/lib/result-schema.ts'
import { guard } from '../src/limits.ts'
import type { PointFile } from '../src/sweep/point-file.ts'
import { fakeConnector, fakeProgramFlags, runCommand } from './fake-programs.ts'

let directory = ''
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'kvferry-bench-test-'))
})
afterAll(() => rmSync(directory, { recursive: true, force: true }))

const onePoint = ['--qps', '400', '--input-lens', '32', '--requests', '25', '--warm-up', '1']

function sweepFakes(results: string, args: readonly string[] = []) {
  const at = ['--results-dir', join(directory, results)]
  return runCommand(['sweep', ...fakeProgramFlags, ...onePoint, ...at, ...args])
}

/** The fakes don't overrun by themselves; the share of the CPU is this machine's. */
const isCarried = ({ kvferry }: PointFile): boolean =>
  kvferry.run!.trials.every(({ cpuBusy }) => cpuBusy <= guard.cpuBusyMax)

const read = (results: string, name: string): PointFile =>
  JSON.parse(readFileSync(join(directory, results, name), 'utf8')) as PointFile

describe('a sweep of two configurations', () => {
  const plain = 'fake_qps400_in32_out16_iter1'
  const inline = 'fake-inline_qps400_in32_out16_iter1'

  it('writes one file and one log a run, the same requests for both', async () => {
    const { exitCode, stderr, stdout } = await sweepFakes('two')
    expect(stderr).toContain('2 runs')
    expect(exitCode).toBe(0)
    const names = [plain, inline].flatMap((name) => [`${name}.json`, `${name}.log`])
    expect(readdirSync(join(directory, 'two')).sort()).toEqual(names.sort())
    const [file, other] = [read('two', `${plain}.json`), read('two', `${inline}.json`)]
    expect(file).toMatchObject({
      label: 'fake',
      model_id: 'fake',
      num_prompts: 25,
      request_rate: 400,
      completed: 25,
      failed: 0,
      total_input_tokens: 25 * 32,
      total_output_tokens: 25 * 16,
    })
    expect(file['mean_ttft_ms']).toBeGreaterThan(0)
    expect(file.kvferry).toMatchObject({
      target: 'engine',
      valid: isCarried(file),
      point: { qps: 400, inputTokens: 32, outputTokens: 16, iteration: 1 },
    })
    expect(file.kvferry.run?.trials[0]?.handshakeMs).toBe(3)
    expect(other.kvferry.run?.outputDigest).toBe(file.kvferry.run?.outputDigest)
    expect(() => assertMatchesSchema('sweep', { ...file, mean_ttft_ms: undefined })).toThrow(
      /mean_ttft_ms/,
    )
    const log = readFileSync(join(directory, 'two', `${plain}.log`), 'utf8')
    expect(log).toContain('25 of 25 requests completed')
    expect(stdout).toContain('2 result files')
  })

  it('makes only what is missing or broken when it is called again', async () => {
    const pathOf = (name: string): string => join(directory, 'two', `${name}.json`)
    const before = statSync(pathOf(plain)).mtimeMs
    writeFileSync(pathOf(inline), '{"cut": ')
    const { exitCode, stderr } = await sweepFakes('two')
    expect(exitCode).toBe(0)
    expect(stderr).not.toContain('1/2')
    expect(stderr).toContain('2/2 fake-inline')
    expect(statSync(pathOf(plain)).mtimeMs).toBe(before)
    expect(read('two', `${inline}.json`).completed).toBe(25)
  })

  it.each([
    [['--seed', '2'], /seed was 1, is 2; use another --results-dir/],
    [['--qps', '300'], /grid.qps was \[400\], is \[300\]/],
    [['--block-size', '32'], /engine.blockTokens was 16, is 32/],
  ])('refuses to go on under other conditions: %j', async (args, message) => {
    const { exitCode, stderr } = await sweepFakes('two', args)
    expect(stderr).toMatch(message)
    expect(stderr.trimEnd().split('\n')).toHaveLength(1)
    expect(exitCode).toBe(2)
  })
})

it('goes through the grid point by point, each point with every configuration in turn', async () => {
  const grid = ['--input-lens', '16,32', '--requests', '4']
  const { exitCode, stderr } = await sweepFakes('turns', grid)
  expect(exitCode, stderr).toBe(0)
  const started = [...stderr.matchAll(/^(\S+): starting$/gm)].map(([, name]) => name)
  expect(started).toEqual([
    'fake_qps400_in16_out16_iter1',
    'fake-inline_qps400_in16_out16_iter1',
    'fake_qps400_in32_out16_iter1',
    'fake-inline_qps400_in32_out16_iter1',
  ])
})

describe('a sweep where something goes wrong', () => {
  const one = ['--connectors', `${fakeConnector}:posting=background`]
  const withFault = async (fault: string, results: string, args: readonly string[] = []) => {
    process.env['FAKE_FAULT'] = fault
    try {
      return await sweepFakes(results, [...one, ...args])
    } finally {
      delete process.env['FAKE_FAULT']
    }
  }

  it('marks a point outside the overrun guard, goes on, and makes it again on demand', async () => {
    const { exitCode, stdout } = await withFault('overrun', 'overrun')
    expect(exitCode).toBe(0)
    expect(stdout).toContain('1 outside the overrun guard')
    const name = 'fake_qps400_in32_out16_iter1.json'
    const overrunShare = () => read('overrun', name).kvferry.run!.trials[0]!.overrunShare.consumer
    expect(read('overrun', name).kvferry.valid).toBe(false)
    await sweepFakes('overrun', one)
    expect(overrunShare()).toBeGreaterThan(guard.overrunShareMax)
    await sweepFakes('overrun', [...one, '--redo-invalid'])
    expect(overrunShare()).toBe(0)
    expect(read('overrun', name).kvferry.valid).toBe(isCarried(read('overrun', name)))
  })

  it('names a wrong byte and fails', async () => {
    const { exitCode, stdout } = await withFault('mismatch', 'mismatch')
    expect(stdout).toContain('fake at qps400_in32_out16: 1 KV blocks held wrong bytes')
    expect(exitCode).toBe(1)
  })

  it('leaves a log and no result for a run that could not be made, and fails', async () => {
    const { exitCode, stdout } = await withFault('die', 'die')
    expect(exitCode).toBe(1)
    expect(stdout).toMatch(/FAILED: fake_qps400.*decode ended on its own/)
    const base = join(directory, 'die', 'fake_qps400_in32_out16_iter1')
    expect(existsSync(`${base}.json`)).toBe(false)
    expect(readFileSync(`${base}.log`, 'utf8')).toContain('could not be made')
  })

  it('finds texts that differ between configurations', async () => {
    const results = 'texts'
    await sweepFakes(results, ['--connectors', `${fakeConnector}:posting=background`])
    process.env['FAKE_FAULT'] = 'wrong-text'
    try {
      const { exitCode, stdout } = await sweepFakes(results)
      expect(stdout).toContain('fake-inline at qps400_in32_out16: texts differ from those of fake')
      expect(exitCode).toBe(1)
    } finally {
      delete process.env['FAKE_FAULT']
    }
  })
})
