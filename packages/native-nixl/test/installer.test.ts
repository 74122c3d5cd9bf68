import { createHash } from 'node:crypto'
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { installNixl, type InstallOptions } from '../src/install/install.ts'
import { neededFileCount, nixlWheels } from '../src/install/wheels.ts'
import { writeSyntheticWheel } from './synthetic-wheel.ts'

/** A package index with the one wheel, shared by all tests; none changes it. */
let index: string
let wheels: NonNullable<InstallOptions['wheels']>
let wheelPath: string
let root: string
let directory: string

beforeAll(() => {
  index = mkdtempSync(join(tmpdir(), 'kvferry-index-'))
  wheels = writeSyntheticWheel(index)
  wheelPath = join(index, wheels['12'].fileName)
})

afterAll(() => rmSync(index, { recursive: true, force: true }))

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'kvferry-install-'))
  directory = join(root, 'cache', '1.5.1-cu12')
  vi.stubEnv('PIP_NO_INDEX', '1')
  vi.stubEnv('PIP_FIND_LINKS', index)
})

afterEach(() => {
  vi.unstubAllEnvs()
  rmSync(root, { recursive: true, force: true })
})

const install = (options: Partial<InstallOptions> = {}) =>
  installNixl({ cuda: '12', directory, wheels, ...options })

const refusal = (attempt: Promise<unknown>) =>
  attempt.then(
    () => {
      throw new Error('accepted')
    },
    (error: { code?: string; message: string }) => {
      expect(error.code).toBe('ERR_NIXL_UNAVAILABLE')
      return error.message
    },
  )

/** The cache holds the installation, or nothing: no temporary directory stays behind. */
const cached = () => readdirSync(join(root, 'cache'))

/** An index on a port where nobody listens. */
async function stubClosedIndex(): Promise<void> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  vi.stubEnv('PIP_NO_INDEX', '')
  vi.stubEnv('PIP_FIND_LINKS', '')
  vi.stubEnv('PIP_INDEX_URL', `http://127.0.0.1:${port}/simple`)
}

// Python and pip take seconds on a busy machine.
describe('install', { timeout: 120_000 }, () => {
  test('fetches through pip and keeps only the files that UCX needs', async () => {
    const result = await install()
    expect(result).toMatchObject({ status: 'installed', fileCount: neededFileCount, directory })
    expect(result.libraryPath).toBe(join(directory, '.nixl_cu12.mesonpy.libs/libnixl_capi.so'))
    expect(readdirSync(directory).sort()).toEqual([
      '.nixl_cu12.mesonpy.libs',
      'kvferry-manifest.json',
      'nixl_cu12.libs',
    ])
    expect(readdirSync(join(directory, 'nixl_cu12.libs/ucx')).sort()).toEqual([
      'libucm_cuda.so.0.0.0',
      'libuct_cma.so.0.0.0',
      'libuct_cuda.so.0.0.0',
    ])
    expect(cached()).toEqual(['1.5.1-cu12'])
  })

  test('a second run needs neither network nor python', async () => {
    await install({ wheelPath })
    await stubClosedIndex()
    vi.stubEnv('PATH', join(root, 'nowhere'))
    expect(await install()).toMatchObject({ status: 'present', fileCount: neededFileCount })
  })

  test('a changed file is found, and the installation is replaced', async () => {
    const { libraryPath } = await install({ wheelPath })
    // The same size, so that only the hash tells.
    writeFileSync(libraryPath, 'Content of .nixl_cu12.mesonpy.libs/libnixl_capi.so')
    expect((await install({ wheelPath })).status).toBe('installed')
    expect((await install({ wheelPath })).status).toBe('present')
    expect(cached()).toEqual(['1.5.1-cu12'])
  })

  test('three at once end with one whole installation', async () => {
    const attempts = [install({ wheelPath }), install({ wheelPath }), install({ wheelPath })]
    for (const result of await Promise.all(attempts)) {
      expect(result.fileCount).toBe(neededFileCount)
    }
    expect((await install({ wheelPath })).status).toBe('present')
    expect(cached()).toEqual(['1.5.1-cu12'])
  })
})

describe('refusals name the remedy and leave nothing behind', { timeout: 120_000 }, () => {
  test('a wheel with another hash', async () => {
    const message = await refusal(install({ wheels: nixlWheels, wheelPath }))
    expect(message).toMatch(/wrong hash.*Nothing was installed/s)
    expect(cached()).toEqual([])
  })

  test('no network', async () => {
    await stubClosedIndex()
    const message = await refusal(install())
    expect(message).toMatch(/could not reach a package index.*--wheel FILE/s)
    expect(cached()).toEqual([])
  })

  test('no python3', async () => {
    vi.stubEnv('PATH', join(root, 'nowhere'))
    expect(await refusal(install())).toMatch(/python3 was not found.*apt-get install python3-pip/s)
    expect(cached()).toEqual([])
  })

  test('python3 without pip', async () => {
    const bin = join(root, 'bin')
    mkdirSync(bin)
    writeFileSync(join(bin, 'python3'), '#!/bin/sh\necho "No module named pip" >&2\nexit 1\n')
    chmodSync(join(bin, 'python3'), 0o755)
    vi.stubEnv('PATH', bin)
    // A shebang needs its shell by absolute path only, so this PATH is enough.
    expect(await refusal(install())).toMatch(/has no pip.*ensurepip/s)
    expect(cached()).toEqual([])
  })

  test('a version that the index does not have', async () => {
    vi.stubEnv('PIP_FIND_LINKS', root)
    expect(await refusal(install())).toMatch(/pip failed to fetch nixl-cu12 1\.5\.1/)
  })

  test('a wheel that is no archive', async () => {
    const broken = join(root, 'broken.whl')
    writeFileSync(broken, 'no archive')
    const sha256 = createHash('sha256').update('no archive').digest('hex')
    const pins = { ...wheels, '12': { ...wheels['12'], sha256 } }
    expect(await refusal(install({ wheelPath: broken, wheels: pins }))).toMatch(
      /could not be unpacked/,
    )
    expect(cached()).toEqual([])
  })

  test('a directory that holds something else', async () => {
    mkdirSync(directory, { recursive: true })
    writeFileSync(join(directory, 'thesis.txt'), 'mine')
    expect(await refusal(install())).toMatch(/is not empty.*--dir/s)
    expect(readdirSync(directory)).toEqual(['thesis.txt'])
  })

  test('a directory that cannot be made', async () => {
    writeFileSync(join(root, 'file'), '')
    expect(await refusal(install({ directory: join(root, 'file', 'nixl') }))).toMatch(
      /can't be used.*writable directory/s,
    )
  })

  test.each([
    [{ os: 'darwin', arch: 'arm64', glibcVersion: null }, /no pinned NIXL for darwin arm64/],
    [{ os: 'linux', arch: 'x64', glibcVersion: null }, /does not use glibc/],
    [{ os: 'linux', arch: 'x64', glibcVersion: '2.27' }, /glibc 2\.27 is too old/],
  ])('platform %o', async (platform, expected) => {
    expect(await refusal(install({ platform }))).toMatch(expected)
  })

  test('an abort ends pip and cleans up', async () => {
    const abort = new AbortController()
    const attempt = install({
      signal: abort.signal,
      onProgress: () => setImmediate(() => abort.abort(new Error('stopped'))),
    })
    await expect(attempt).rejects.toThrow('stopped')
    expect(cached()).toEqual([])
  })
})
