/** Back ends beside UCX: a plugin that doesn't load says which library it wants. */
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ConnectorError } from '@kvferry/connector-api'
import { createNixlAgent } from '../src/index.ts'
import { fakeLibraryPath } from './fake-library.ts'
import { describeWithNixl } from './nixl-availability.ts'

const folder = mkdtempSync(join(tmpdir(), 'kvferry-plugins-'))
afterAll(() => rmSync(folder, { recursive: true }))

async function refusal(options: { backends: string[]; libraryPath?: string }) {
  try {
    await createNixlAgent({ name: 'plugins', ...options })
  } catch (error) {
    if (ConnectorError.isInstance(error)) return { code: error.code, message: error.message }
    throw error
  }
  throw new Error('an agent was made')
}

describe('beside the fake library', () => {
  const libraryPath = join(folder, 'libnixl_capi.so')
  beforeAll(() => {
    mkdirSync(join(folder, 'plugins'))
    symlinkSync(fakeLibraryPath, libraryPath)
    const compile = (source: string, output: string, ...libraries: string[]) => {
      writeFileSync(join(folder, 'source.c'), source)
      const compiler = process.env['CXX'] ?? 'g++'
      const flags = ['-shared', '-fPIC', '-x', 'c++', join(folder, 'source.c'), '-x', 'none']
      // A sanitizer that is preloaded into this process is not meant for the compiler.
      const env = { ...process.env, LD_PRELOAD: '' }
      execFileSync(compiler, [...flags, ...libraries, '-o', output], { env })
    }
    const wanted = join(folder, 'libvendor_of_nothing.so.7')
    compile('extern "C" int vendor() { return 1; }', wanted)
    const plugin = join(folder, 'plugins', 'libplugin_WANTING.so')
    compile('extern "C" int vendor(); int use() { return vendor(); }', plugin, wanted)
    compile('int use() { return 1; }', join(folder, 'plugins', 'libplugin_WHOLE.so'))
    rmSync(wanted)
  })

  test('a plugin that lacks a library: ERR_NIXL_UNAVAILABLE names it and what to do', async () => {
    const { code, message } = await refusal({ backends: ['UCX', 'WANTING'], libraryPath })
    expect(code).toBe('ERR_NIXL_UNAVAILABLE')
    expect(message).toMatch(/plugin WANTING .*libvendor_of_nothing\.so\.7.*nixl\.backends/s)
  })

  test('a plugin that is not there: the message names the file', async () => {
    const { code, message } = await refusal({ backends: ['ABSENT'], libraryPath })
    expect(code).toBe('ERR_NIXL_UNAVAILABLE')
    expect(message).toContain(join(folder, 'plugins', 'libplugin_ABSENT.so'))
  })

  test.each(['WHOLE', '../plugins/WANTING', ''])(
    'what loads, or is no name, and is refused all the same: ERR_NIXL (%j)',
    async (name) => {
      expect(await refusal({ backends: [name], libraryPath })).toMatchObject({ code: 'ERR_NIXL' })
    },
  )
})

describeWithNixl(() => {
  test('with the installed NIXL, LIBFABRIC is refused with what is missing', async () => {
    const { code, message } = await refusal({ backends: ['LIBFABRIC'] })
    expect(code).toBe('ERR_NIXL_UNAVAILABLE')
    expect(message).toMatch(/LIBFABRIC/)
  })
})
