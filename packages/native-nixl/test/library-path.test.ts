import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { ConnectorError } from '@kvferry/connector-api'
import { findLibrary } from '../src/library-path.ts'

let root: string
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'kvferry-path-'))
})
afterEach(() => rmSync(root, { recursive: true, force: true }))

function touch(path: string): string {
  const absolute = join(root, path)
  mkdirSync(dirname(absolute), { recursive: true })
  writeFileSync(absolute, '')
  return absolute
}

const installed = (place: string, cuda: string) =>
  touch(`${place}/.nixl_cu${cuda}.mesonpy.libs/libnixl_capi.so`)

function searched(attempt: () => unknown): readonly string[] {
  try {
    attempt()
  } catch (error) {
    if (ConnectorError.isInstance(error) && error.code === 'ERR_NIXL_UNAVAILABLE') {
      return error.details.searched
    }
    throw error
  }
  throw new Error('found')
}

describe('where the library is looked for', () => {
  test('an explicit path wins over everything', () => {
    const explicit = touch('own/libnixl_capi.so')
    const environment = { KVFERRY_NIXL_LIBRARY: touch('variable.so') }
    expect(findLibrary(explicit, environment)).toBe(explicit)
  })

  test('then the variable that names a file, then the one that names a directory', () => {
    const file = touch('variable.so')
    const inDirectory = installed('directory', '12')
    const KVFERRY_NIXL_DIR = join(root, 'directory')
    expect(findLibrary(null, { KVFERRY_NIXL_LIBRARY: file, KVFERRY_NIXL_DIR })).toBe(file)
    expect(findLibrary(null, { KVFERRY_NIXL_LIBRARY: '', KVFERRY_NIXL_DIR })).toBe(inDirectory)
  })

  test('then the cache of the user, whichever wheel is there', () => {
    const environment = { XDG_CACHE_HOME: root }
    const thirteen = installed('kvferry/nixl/1.5.1-cu13', '13')
    expect(findLibrary(null, environment)).toBe(thirteen)
    const twelve = installed('kvferry/nixl/1.5.1-cu12', '12')
    expect(findLibrary(null, environment)).toBe(twelve)
  })

  test('what was named and is missing is never replaced by another', () => {
    installed('kvferry/nixl/1.5.1-cu12', '12')
    const missing = join(root, 'missing.so')
    const environment = { XDG_CACHE_HOME: root }
    expect(searched(() => findLibrary(missing, environment))).toEqual([missing])
    expect(
      searched(() => findLibrary(null, { ...environment, KVFERRY_NIXL_LIBRARY: missing })),
    ).toEqual([missing])
    expect(
      searched(() => findLibrary(null, { ...environment, KVFERRY_NIXL_DIR: join(root, 'empty') })),
    ).toHaveLength(2)
  })
})
