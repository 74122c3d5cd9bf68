/** `kvferry check-config` as it is installed, over the connectors that are installed with it. */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, expect, test } from 'vitest'
import { binOf } from '../src/deployment.ts'

const folder = mkdtempSync(join(tmpdir(), 'kvferry-check-config-'))
afterAll(() => rmSync(folder, { recursive: true }))

function check(config: object): { exitCode: number | null; stderr: string } {
  const file = join(folder, 'kvferry.yaml')
  writeFileSync(file, JSON.stringify(config))
  const { status, stderr } = spawnSync(
    process.execPath,
    [binOf('@kvferry/runtime', 'kvferry'), 'check-config', file],
    { encoding: 'utf8', timeout: 60_000, cwd: fileURLToPath(new URL('..', import.meta.url)) },
  )
  return { exitCode: status, stderr }
}

test.each([
  ['pull', { posting: 'later', leaseDurationMs: 1, leaseDuration: 5 }],
  ['push', { progressive: 'yes', leaseDurationMs: 1, leaseDuration: 5 }],
  ['xavier', { staging: 'host', gpuCacheBytes: -1, claimedTicket: 5 }],
])('names every option of %s that is wrong, with value and remedy', (connector, options) => {
  const { exitCode, stderr } = check({ connector, options })
  expect(exitCode, stderr).toBe(1)
  for (const [name, value] of Object.entries(options)) {
    expect(stderr).toMatch(
      new RegExp(`options\\.${name}: ${value} is (unknown|not valid); (use|did you mean) `),
    )
  }
  expect(check({ connector }), 'the control').toEqual({ exitCode: 0, stderr: '' })
})
