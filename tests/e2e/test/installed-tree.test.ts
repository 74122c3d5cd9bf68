/**
 * What the bundle for machines with GPUs takes along (`npm run bundle:gpu`) is whole: copied elsewhere, the programs start
 * from there, everything that a package of it imports is found there, and nothing leads back.
 */
import { execFile } from 'node:child_process'
import {
  mkdtempSync,
  readFileSync,
  readdirSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'

interface InstalledTree {
  copyInstalled(options: { root: string; folder: string; target: string }): void
}

const root = fileURLToPath(new URL('../../..', import.meta.url))
const target = realpathSync(mkdtempSync(join(tmpdir(), 'kvferry-tree-')))

beforeAll(async () => {
  const { copyInstalled } = (await import(
    new URL('../../../scripts/installed-tree.mjs', import.meta.url).href
  )) as InstalledTree
  copyInstalled({ root, folder: join(root, 'benchmarks'), target })
})
afterAll(() => rmSync(target, { recursive: true, force: true }))

const inPackages = (name: string) => join('packages', name)
const run = (...args: string[]) =>
  promisify(execFile)(process.execPath, args, { cwd: target, timeout: 60_000 })

test('links stay within', () => {
  const links = readdirSync(target, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isSymbolicLink())
    .map(({ parentPath, name }) => join(parentPath, name))
  expect(links.length).toBeGreaterThan(50)
  for (const link of links) expect(realpathSync(link).startsWith(`${target}/`), link).toBe(true)
})

test('the programs start', async () => {
  const programs = {
    'kvferry-bench': 'benchmarks/bin/kvferry-bench.mjs',
    'kvferry-engine': 'packages/reference-engine/bin/kvferry-engine.mjs',
    'kvferry-router': 'packages/router/bin/kvferry-router.mjs',
    'kvferry-nixl': 'packages/native-nixl/bin/kvferry-nixl.mjs',
  }
  for (const [name, path] of Object.entries(programs)) {
    expect((await run(path, '--help')).stdout).toContain(`Usage: ${name}`)
  }
})

test('what the packages need is there, and what that needs', async () => {
  let count = 0
  for (const folder of ['benchmarks', ...readdirSync(join(target, 'packages')).map(inPackages)]) {
    const manifest = readFileSync(join(target, folder, 'package.json'), 'utf8')
    const { dependencies = {} } = JSON.parse(manifest) as { dependencies?: object }
    const names = Object.keys(dependencies).filter((name) => !name.startsWith('@kvferry/'))
    const script = join(target, folder, 'import-all.mjs')
    writeFileSync(script, names.map((name) => `import ${JSON.stringify(name)}`).join('\n'))
    await run(script)
    count += names.length
  }
  expect(count).toBeGreaterThan(15)
})
