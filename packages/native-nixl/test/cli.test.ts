import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { fixturePath } from './children.ts'
import { describeWithNixl } from './nixl-availability.ts'

let root: string
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'kvferry-cli-'))
})
afterEach(() => rmSync(root, { recursive: true, force: true }))

function run(parameters: string[], environment: Record<string, string> = {}) {
  return new Promise<{ code: number | null; stdout: string; stderr: string }>((resolve) => {
    const child = spawn(process.execPath, [fixturePath('cli'), ...parameters], {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, ...environment },
      timeout: 110_000,
      killSignal: 'SIGKILL',
    })
    let stdout = ''
    let stderr = ''
    child.stdout.on('data', (chunk: Buffer) => (stdout += chunk.toString()))
    child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()))
    child.once('close', (code) => resolve({ code, stdout, stderr }))
  })
}

describe('kvferry-nixl', { timeout: 120_000 }, () => {
  test.each([
    [['--help'], 0],
    [['install', '--help'], 0],
    [['doctor', '--help'], 0],
    [['info', '--help'], 0],
  ])('%j shows an example and ends with %d', async (parameters, code) => {
    const result = await run(parameters)
    expect(result.code).toBe(code)
    expect(result.stdout).toContain('Example:')
    expect(result.stdout).not.toMatch(/doctor-side|doctor-rates/)
  })

  test.each([
    [[]],
    [['install', '--cuda', '11']],
    [['install', '--nonsense']],
    [['nonsense']],
    [['info', 'too', 'many']],
    [['doctor', '--rates', '5']],
    [['doctor', '--rates', '258']],
    [['doctor', '--rates', 'fast']],
  ])('%j is wrong usage: one line, exit code 2', async (parameters) => {
    const { code, stdout, stderr } = await run(parameters)
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toMatch(/^kvferry-nixl: (?!error)[^\n]+\n$/)
  })

  test.each(['doctor', 'info'])('%s without NIXL says what to do, exit code 1', async (command) => {
    const { code, stderr } = await run([command], {
      KVFERRY_NIXL_DIR: root,
      KVFERRY_NIXL_LIBRARY: '',
    })
    expect(code).toBe(1)
    expect(stderr).toContain('Run "npx kvferry-nixl install"')
  })

  test('doctor names a library that is none', async () => {
    const file = join(root, 'result.json')
    const { code } = await run(['doctor', '--json', file], {
      KVFERRY_NIXL_LIBRARY: process.execPath,
    })
    expect(code).toBe(1)
    const result = JSON.parse(readFileSync(file, 'utf8')) as {
      isHealthy: boolean
      findings: object[]
    }
    expect(result.isHealthy).toBe(false)
    expect(result.findings).toMatchObject([
      { check: 'native addon', status: 'ok' },
      { check: 'NIXL library', status: 'failed', remedy: expect.stringContaining('install') },
    ])
  })

  describeWithNixl(() => {
    test('doctor moves a block both ways over each transport', async () => {
      const { code, stdout } = await run(['doctor', '--json', '-'])
      const result = JSON.parse(stdout) as { isHealthy: boolean; findings: object[] }
      expect(result).toMatchObject({
        schema: 'kvferry.nixl-doctor/1',
        isHealthy: true,
        findings: [
          { check: 'native addon', status: 'ok' },
          { check: 'NIXL library', status: 'ok' },
          { check: 'shared memory (CMA)', move: { failure: null } },
          {
            check: 'TCP (loopback)',
            status: 'ok',
            move: { failure: null, transports: { data: ['tcp'], messages: ['tcp'] } },
          },
          { check: 'GPUs', status: 'ok', remedy: null },
        ],
      })
      expect(code).toBe(0)
    })

    test('doctor --rates: without a GPU it says so, and measures host memory by each path, every slot right', async () => {
      const { code, stdout, stderr } = await run(['doctor', '--rates', '4', '--json', '-'])
      const { rates, findings } = JSON.parse(stdout) as {
        rates: { pairs: { paths: string[]; results: { outcome: string; wrongSlots: number }[] }[] }
        findings: object[]
      }
      expect(findings).toContainEqual(expect.objectContaining({ check: 'GPUs', status: 'ok' }))
      expect(findings).toContainEqual(
        expect.objectContaining({ check: 'rates, host memory', status: 'ok' }),
      )
      expect(rates).toMatchObject({ totalBytes: 4_194_304, pairs: [{ from: null, to: null }] })
      const { paths, results } = rates.pairs[0]!
      expect(paths).toEqual(['descriptors', 'slabs'])
      expect(results).toHaveLength(paths.length * 2 * 3)
      for (const result of results) {
        expect(result.outcome).toBe('measured')
        expect(result.wrongSlots).toBe(0)
      }
      expect(stderr).toMatch(
        /host memory, two processes of this machine: 4 MiB in scattered blocks/,
      )
      expect(stderr).toMatch(/GPUs: none/)
      expect(code).toBe(0)
    })

    test('info lists versions, plugins and limits, and nothing else on stdout', async () => {
      const { code, stdout } = await run(['info', '--json', '-'])
      expect(code).toBe(0)
      expect(JSON.parse(stdout)).toMatchObject({
        schema: 'kvferry.nixl-info/1',
        layout: 'int-listen-port',
        plugins: expect.arrayContaining([{ name: 'UCX', isLoadable: true }]),
        limits: { transfersInFlightMax: 4_096 },
      })
    })

    test('doctor fails where UCX has nothing to work with', async () => {
      // The doctor sets UCX_TLS itself; a network device that does not exist disables TCP.
      const { code, stderr } = await run(['doctor'], { UCX_NET_DEVICES: 'none0' })
      expect(code).toBe(1)
      expect(stderr).toMatch(/FAILED\s+TCP \(loopback\)[\s\S]*remedy: /)
    })
  })
})
