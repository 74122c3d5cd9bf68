/**
 * The published form: packages packed as for a release, installed by npm into an empty folder from a
 * registry on loopback, and used there as the how-to says. Nothing of the clone is on the path.
 */
import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { isNixlAvailable } from '@kvferry/native-nixl'
import {
  packFolders,
  startRegistry,
  thirdPartyFolders,
  type LocalRegistry,
  type PackedPackage,
} from '../src/local-registry.ts'

interface Packing {
  packAll(options: {
    out: string
    only: readonly string[]
    hasTypes: boolean
  }): Promise<PackedPackage[]>
}

const root = fileURLToPath(new URL('../../..', import.meta.url))
const names = ['connector-api', 'connector-pull', 'native-nixl', 'native-nixl-linux-x64', 'runtime']
const work = mkdtempSync(join(tmpdir(), 'kvferry-publish-'))
const app = join(work, 'app')
let packed: PackedPackage[]
let registry: LocalRegistry

interface Ended {
  readonly code: number
  readonly output: string
}

/** Runs in the empty folder, with a cache of its own and without settings of the clone. */
async function run(command: string, ...args: string[]): Promise<Ended> {
  const env = {
    ...process.env,
    npm_config_registry: registry.url,
    npm_config_cache: join(work, 'npm-cache'),
    npm_config_userconfig: join(work, 'npmrc'),
    KVFERRY_NATIVE_ADDON: '',
    NODE_OPTIONS: '',
  }
  try {
    const limits = { cwd: app, env, timeout: 120_000 }
    const { stdout, stderr } = await promisify(execFile)(command, args, limits)
    return { code: 0, output: stdout + stderr }
  } catch (error) {
    const { code, stdout, stderr } = error as { code: number; stdout: string; stderr: string }
    return { code, output: `${stdout}${stderr}` }
  }
}

const npmInstall = (...packages: string[]) =>
  run('npm', 'install', '--no-audit', '--no-fund', ...packages.map((name) => `@kvferry/${name}`))
const bin = (name: string) => join(app, 'node_modules', '.bin', name)

beforeAll(async () => {
  const tarballs = join(work, 'tarballs')
  const { packAll } = (await import(join(root, 'scripts', 'pack.mjs'))) as Packing
  // Without declarations: they take a minute, and nothing here reads them.
  const only = names.map((name) => `@kvferry/${name}`)
  packed = await packAll({ out: tarballs, only, hasTypes: false })
  const folders = thirdPartyFolders(names.map((name) => join(root, 'packages', name)))
  registry = await startRegistry([...packed, ...(await packFolders(folders, tarballs))])
  const how = readFileSync(join(root, 'docs', 'how-to', 'move-your-first-blocks.md'), 'utf8')
  const program = /```js\n([\s\S]*?)```/.exec(how)?.[1]
  mkdirSync(app)
  writeFileSync(join(app, 'package.json'), '{ "name": "app", "private": true, "type": "module" }')
  writeFileSync(join(app, 'move.js'), program ?? '')
}, 240_000)

afterAll(async () => {
  await registry?.close()
  rmSync(work, { recursive: true, force: true })
})

test('tarballs hold no links into the workspace, no sources and no place of this machine', async () => {
  const { stdout } = await promisify(execFile)('ls', ['-1', join(work, 'tarballs')])
  expect(stdout.split('\n').filter((file) => file.startsWith('kvferry-'))).toHaveLength(
    names.length,
  )
  for (const { name, file, manifest } of packed) {
    expect(JSON.stringify(manifest), name).not.toMatch(/workspace:|kvferry-source|devDependencies/)
    const options = { maxBuffer: 64 * 1_048_576, encoding: 'latin1' } as const
    const list = (await promisify(execFile)('tar', ['tzf', file], options)).stdout
    expect(list, name).toMatch(/^package\/README\.md$/m)
    expect(list, name).toMatch(/^package\/LICENSE$/m)
    expect(list, name).not.toMatch(/^package\/(src|test|native)\//m)
    const content = (await promisify(execFile)('tar', ['xzOf', file], options)).stdout
    expect(content.includes(root), `${name} names ${root}`).toBe(false)
  }
})

describe('an empty folder', () => {
  test('npm installs the runtime and the addon of this platform', async () => {
    const { code, output } = await npmInstall('native-nixl', 'runtime')
    expect(code, output).toBe(0)
    const installed = readdirSync(join(app, 'node_modules', '@kvferry')).sort()
    expect(installed).toEqual(['connector-api', 'native-nixl', 'native-nixl-linux-x64', 'runtime'])
  })

  test('without the connector, the program ends with the command that mends it', async () => {
    const { code, output } = await run(process.execPath, 'move.js')
    expect(code).toBe(1)
    expect(output).toContain('ERR_KV_CONNECTOR_NOT_INSTALLED')
    expect(output).toContain('npm install @kvferry/connector-pull')
  })

  const availability = isNixlAvailable()
  const isRequired = process.env['KVFERRY_REQUIRE_NIXL'] === '1'
  const reason = availability.available ? '' : ` (skipped: ${availability.error.message})`
  test.skipIf(!availability.available && !isRequired)(
    `with NIXL: install finds it, doctor passes, and the program moves verified blocks${reason}`,
    async () => {
      const installed = await run(bin('kvferry-nixl'), 'install')
      expect(installed.output).toContain('is there already')
      const doctor = await run(bin('kvferry-nixl'), 'doctor')
      expect(doctor.code, doctor.output).toBe(0)
      const connector = await npmInstall('connector-pull')
      expect(connector.code, connector.output).toBe(0)
      const { code, output } = await run(process.execPath, 'move.js')
      expect(code, output).toBe(0)
      expect(output).toContain('16 blocks moved, every byte equal')
    },
  )

  test('without the package of the platform, doctor says which one is missing', async () => {
    rmSync(join(app, 'node_modules', '@kvferry', 'native-nixl-linux-x64'), { recursive: true })
    const { code, output } = await run(bin('kvferry-nixl'), 'doctor')
    expect(code).toBe(1)
    expect(output).toContain('Install @kvferry/native-nixl-linux-x64')
  })
})
