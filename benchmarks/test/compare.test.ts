/**
 * The whole command over fake programs: what it reports when all is well, and that each thing that may
 * go wrong makes it exit 1 and say what.
 */
import { mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { assertMatchesSchema } from '../src/lib/result-schema.ts'
import type { RunEntry } from '../src/compare/result.ts'
import {
  compareFakes,
  fakeProgramFlags,
  isAlive,
  runCommand,
  shortLoad,
  type FakeComparison,
} from './fake-programs.ts'

const oneMode = ['--posting', 'background']

const runOf = (runs: readonly RunEntry[], label: string): RunEntry =>
  runs.find((run) => run.label === label) as RunEntry

describe('compare over programs that work', () => {
  let directory = ''
  let comparison: FakeComparison

  beforeAll(async () => {
    directory = mkdtempSync(join(tmpdir(), 'kvferry-bench-test-'))
    comparison = await compareFakes(null, ['--keep-logs', directory])
  })
  afterAll(() => rmSync(directory, { recursive: true, force: true }))

  it('reports both posting modes and the oracle, verified and alike', () => {
    const { exitCode, result, stderr } = comparison
    expect(stderr).not.toContain('FAILED')
    expect(exitCode).toBe(0)
    expect(result?.runs.map((run) => run.label)).toEqual(['oracle', 'fake', 'fake-inline'])
    const runs = result?.runs ?? []
    const [oracle, fake] = [runOf(runs, 'oracle'), runOf(runs, 'fake')]
    expect(fake.outputDigest).toBe(oracle.outputDigest)
    expect(fake).toMatchObject({
      requests: 72,
      failed: 0,
      wrongTexts: 0,
      bytesVerified: true,
      mismatchedBlocks: 0,
      transports: ['fake'],
      agent: 'nixl',
      options: {},
    })
    expect(runOf(runs, 'fake-inline').options).toEqual({ posting: 'inline' })
    expect(fake.burst.peakConcurrency).toBe(32)
    expect(fake.trials[0]?.handshakeMs).toBe(3)
    expect(fake.ttftMs.count).toBeGreaterThan(20)
    expect(fake.wireMs.p50).toBeCloseTo(0.2)
    expect(fake.criticalBytes.p50).toBe(16_384)
    const { total, descriptors, copy } = fake.blockedUs
    expect([total.p50, descriptors.p50, copy.p50]).toEqual([30, 20, 10])
    expect(fake.cpuSecondsPerRequest.producer).toBeGreaterThanOrEqual(0)
    expect(result?.noiseFloor.method).toBe('split-half')
    expect(result?.verdict).toMatchObject({ ok: true, failures: [] })
  })

  it('keeps logs, says who ran where, and leaves none of them running', () => {
    expect(readdirSync(directory).sort()).toEqual(['fake-1', 'fake-inline-1', 'oracle'])
    const text = readFileSync(join(directory, 'fake-1', 'cluster.json'), 'utf8')
    const { engines } = JSON.parse(text) as { engines: { role: string; pid: number }[] }
    expect(engines.map((engine) => engine.role)).toEqual(['producer', 'consumer'])
    expect(engines.some((engine) => isAlive(engine.pid))).toBe(false)
    const log = readFileSync(join(directory, 'fake-1', 'decode.log'), 'utf8')
    expect(log).toContain('fake consumer listens')
  })

  it('writes a result that its schema refuses once a field is missing', () => {
    const { result } = comparison
    expect(() => assertMatchesSchema('compare', result)).not.toThrow()
    const [run, ...others] = result?.runs ?? []
    const incomplete = { ...run, ttftMs: undefined }
    const broken = JSON.parse(
      JSON.stringify({ ...result, runs: [incomplete, ...others] }),
    ) as unknown
    expect(() => assertMatchesSchema('compare', broken)).toThrow(/runs\/0.*ttftMs/)
  })

  it('prints the table when stdout is not taken by the result', async () => {
    const args = ['compare', ...fakeProgramFlags, ...shortLoad, '--posting', 'inline']
    const { exitCode, stdout } = await runCommand(args)
    expect(exitCode).toBe(0)
    expect(stdout).toMatch(/│ oracle +│ fake-inline +│\n/)
    expect(stdout).toContain('hand-over')
    expect(stdout).toContain('All checks passed')
  })
})

describe('compare over programs that fail', () => {
  it('one wrong character in one output: exit 1', async () => {
    const { exitCode, stderr, result } = await compareFakes('wrong-text', oneMode)
    expect(stderr).toContain('fake: 1 outputs differ from the oracle')
    expect(stderr).toContain('fake: outputDigest differs from the oracle')
    expect(result?.verdict.failures).toHaveLength(2)
    expect(exitCode).toBe(1)
  })

  it('several faults at once: every one is named', async () => {
    const faults = 'mismatch,unverified,error,leak'
    const { exitCode, stderr, result } = await compareFakes(faults, oneMode)
    expect(stderr).toContain('fake: 1 KV blocks held wrong bytes')
    expect(stderr).toMatch(/fake: not every byte was verified: 0 of \d+ loaded blocks/)
    expect(stderr).toMatch(
      /fake: 1 requests failed; first: request \d+: .*HTTP 500 ERR_FAKE: broken/,
    )
    expect(stderr).toContain('fake: 2 blocks were not given back')
    expect(result?.verdict.ok).toBe(false)
    expect(exitCode).toBe(1)
  })

  it('a point outside the overrun guard: a warning in quick', async () => {
    const { exitCode, stderr, result } = await compareFakes('overrun', oneMode)
    expect(exitCode).toBe(0)
    expect(stderr).toContain('fake: outside the overrun guard (overrun 50.0 %')
    expect(runOf(result?.runs ?? [], 'fake').valid).toBe(false)
  })

  it('an engine that dies: exit 1 with its last words', async () => {
    const { exitCode, stderr, result } = await compareFakes('die', oneMode)
    expect(exitCode).toBe(1)
    expect(result).toBeNull()
    expect(stderr).toContain('decode ended on its own (exit code 7)')
    expect(stderr).not.toMatch(/^ +at /m)
    expect(stderr).toContain('decode| fake consumer listens')
  })
})

describe('compare, used wrongly: exit 2 and one line', () => {
  const cases: readonly (readonly [args: readonly string[], text: RegExp])[] = [
    [['--preset', 'slow'], /--preset slow: use one of quick, full/],
    [['--requests', '0'], /--requests 0: use a number from 1/],
    [['--requests', '1.5'], /--requests 1.5: use a whole number/],
    [['--input-tokens', '0'], /--input-tokens 0: use a number from 1/],
    [['--max-num-batched-tokens', '0'], /--max-num-batched-tokens 0: use a number from 1/],
    [
      ['--input-tokens', '600', '--max-model-len', '615'],
      /--max-model-len 615: prompts of 600 tokens and 16 of output exceed it; raise it/,
    ],
    [['--seed', 'x'], /--seed x/],
    [['--agent', 'auto'], /--agent auto is for --demo only/],
    [['--devices', 'gpu0'], /--devices gpu0: use cpu or cuda:N/],
    [['--devices', 'cuda:0,cuda:1,cuda:2'], /two of them for P and D/],
    [['--option', 'depth'], /--option depth: use key=value/],
    [['--option', 'deph=2'], /ERR_KV_CONFIG: options.deph is unknown/],
    [['--connectors', 'no-such-connector'], /ERR_KV_CONNECTOR_NOT_INSTALLED.*npm install/],
    [['--connectors', 'pull,'], /--connectors "pull,"/],
    [['--json', '/no/such/place/result.json'], /--json .*: the directory does not exist/],
    [['--nonsense'], /unknown option '--nonsense'/],
  ]
  it.each(cases)('%j', async (args, text) => {
    const outcome = await runCommand(['compare', ...fakeProgramFlags, ...args])
    expect(outcome.stderr).toMatch(text)
    expect(outcome.stderr.trimEnd().split('\n')).toHaveLength(1)
    expect(outcome.stdout).toBe('')
    expect(outcome.exitCode).toBe(2)
  })

  it('micro without a subject', async () => {
    const outcome = await runCommand(['micro'])
    expect(outcome.stderr).toBe(
      'kvferry-bench: micro: name what to measure, one of: --agent, --router, --history, --paths\n',
    )
    expect(outcome.exitCode).toBe(2)
  })

  it('an unknown command', async () => {
    const outcome = await runCommand(['compere'])
    expect(outcome.stderr).toMatch(/unknown command 'compere'/)
    expect(outcome.exitCode).toBe(2)
  })

  it.each([
    ['compare', 'pull,push'],
    ['reuse', 'pull,xavier'],
    ['load', 'pull,push,xavier,xavier:staging=snapshot'],
  ])('%s runs what its checks and bars speak of, unless told otherwise', async (command, list) => {
    const { stdout } = await runCommand([command, '--help'])
    expect(stdout.replaceAll(/\s+/g, ' ')).toContain(`commas (default: "${list}")`)
  })

  it('--help shows an example and exits 0', async () => {
    const outcome = await runCommand(['compare', '--help'])
    expect(outcome.stdout).toContain('Example:')
    expect(outcome.exitCode).toBe(0)
  })
})
