/** `compare --against DIR`: another checkout's programs, beside this one's and in turn, as that checkout knows its flags. */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { readBuild } from '../src/compare/other-build.ts'
import type { RequestMetrics } from '../src/compare/request-metrics.ts'
import { over } from '../src/compare/run-entry.ts'
import { compareFakes, fakeConnector, fixtureUrl, runCommand } from './fake-programs.ts'

let folder = ''
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'kvferry-bench-test-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

/** What is between the name of a label and that of the checkout. */
const at = (label: string): string => `${label}@${basename(folder)}`

/** A program of the other checkout: says what flags it has, refuses others, then is the fake of that name. */
function writeProgram(path: string, fake: string, flags: string): void {
  const script = join(folder, path)
  mkdirSync(dirname(script), { recursive: true })
  writeFileSync(
    script,
    `if (process.argv.includes('--help')) {
  console.log('usage: --port ${flags}')
  process.exit(0)
}
if (process.argv.includes('--stop-on-stdin-end') && !'${flags}'.includes('--stop-on-stdin-end')) {
  console.error('unknown option --stop-on-stdin-end')
  process.exit(1)
}
console.error('the other build')
await import(${JSON.stringify(fixtureUrl(fake))})
`,
  )
}

function writeCheckout(flags = ''): void {
  writeProgram('packages/reference-engine/bin/kvferry-engine.mjs', 'fake-engine.mjs', flags)
  writeProgram('packages/router/bin/kvferry-router.mjs', 'fake-router.mjs', flags)
}

describe('compare --against', () => {
  it('runs each configuration by both builds, one after the other, from the programs of each', async () => {
    writeCheckout()
    const logs = join(folder, 'logs')
    const args = ['--connectors', fakeConnector, '--against', folder, '--keep-logs', logs]
    const { exitCode, result, stderr } = await compareFakes(null, args)
    expect(exitCode, stderr).toBe(0)
    const labels = ['oracle', 'fake', at('fake'), 'fake-inline', at('fake-inline')]
    expect(result?.runs.map(({ label }) => label)).toEqual(labels)
    expect(result?.runs.map(({ build }) => build?.name ?? null)).toEqual([
      ...[null, null, basename(folder), null, basename(folder)],
    ])
    const started = [...stderr.matchAll(/^(\S+): starting$/gm)].map(([, name]) => name)
    const trials = labels.slice(1).map((label) => `${label.replace('@', '-')}-1`)
    expect(started).toEqual(['oracle', ...trials])
    for (const trial of readdirSync(logs).filter((name) => name !== 'oracle')) {
      const isOther = trial.includes(basename(folder))
      for (const program of ['prefill', 'decode', 'router']) {
        const log = readFileSync(join(logs, trial, `${program}.log`), 'utf8')
        expect(log.includes('the other build'), `${trial} ${program}`).toBe(isOther)
      }
    }
    const [first] = result?.bars ?? []
    expect(first).toMatchObject({ subject: 'fake', rule: expect.stringContaining(at('fake')) })
    expect(result?.bars).toHaveLength(6)
  })

  it('tells a program to end with the harness where it can', () => {
    writeCheckout('--stop-on-stdin-end')
    expect(readBuild(folder)).toMatchObject({
      name: basename(folder),
      engine: { canStopOnStdinEnd: true },
      router: { canStopOnStdinEnd: true },
    })
    writeCheckout()
    expect(readBuild(folder).engine.canStopOnStdinEnd).toBe(false)
  })

  it('takes what the other build does not say for not observed', () => {
    const { count, p50 } = over([{} as RequestMetrics], () => Number.NaN)
    expect({ count, p50 }).toEqual({ count: 0, p50: null })
  })

  it('refuses a folder without a build, one that does not run, and the in-memory agent', async () => {
    const compare = (...args: string[]) =>
      runCommand(['compare', '--connectors', fakeConnector, '--against', folder, ...args])
    const missing = await compare()
    expect(missing.stderr).toMatch(/--against .*: there is no packages\/reference-engine\/bin/)
    expect(missing.exitCode).toBe(2)
    writeCheckout()
    writeFileSync(join(folder, 'packages/router/bin/kvferry-router.mjs'), "import './none.mjs'")
    const broken = await compare()
    expect(broken.stderr).toMatch(
      /kvferry-router.mjs doesn't run: Error.*none\.mjs.*; build that checkout/,
    )
    expect(broken.stderr.trimEnd().split('\n')).toHaveLength(1)
    expect(broken.exitCode).toBe(2)
    const memory = await compare('--agent', 'memory')
    expect(memory.stderr).toMatch(/--against .*: another build runs in processes of its own/)
    expect(memory.exitCode).toBe(2)
  })
})
