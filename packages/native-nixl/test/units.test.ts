/** What the native build compiles: batches or single files, only what changed, and what only single files show. */
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'

interface Unit {
  readonly file: string
  readonly object: string
}

interface Compiler {
  readonly command: string
  readonly version: string
}

interface Units {
  unitsOf(options: {
    readonly files: readonly string[]
    readonly flags: readonly string[]
    readonly folder: string
    readonly compiler: Compiler
    readonly isEach: boolean
  }): Unit[]
  compileUnits(units: readonly Unit[], compiler: Compiler): Promise<void>
}

const nativeModule = async (name: string): Promise<unknown> =>
  import(new URL(`../native/${name}`, import.meta.url).href)
const { unitsOf, compileUnits } = (await nativeModule('units.mjs')) as Units
const { findCompiler } = (await nativeModule('build.mjs')) as { findCompiler(): Compiler }
const compiler = findCompiler()

let folder = ''
let files: string[] = []
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'kvferry-units-'))
  // The second one leans on what the first one includes.
  const sources = {
    'size.h': '#include <cstddef>\nconstexpr std::size_t kSize = 4;\n',
    'first.cc': '#include "size.h"\nstd::size_t first() { return kSize; }\n',
    'second.cc': 'std::size_t second() { return kSize; }\n',
  }
  for (const [name, text] of Object.entries(sources)) writeFileSync(join(folder, name), text)
  files = ['first.cc', 'second.cc'].map((name) => join(folder, name))
})
afterEach(() => rmSync(folder, { recursive: true }))

const compile = async (isEach: boolean): Promise<Unit[]> => {
  const units = unitsOf({ files, flags: [], folder: join(folder, 'objects'), compiler, isEach })
  await compileUnits(units, compiler)
  return units
}

test('small files are one batch, which names them all', async () => {
  const units = await compile(false)
  expect(units).toHaveLength(1)
  expect(readFileSync(units[0]!.file, 'utf8')).toBe(
    files.map((file) => `#include "${file}"\n`).join(''),
  )
})

test('one by one, a file that leans on its neighbour is found', async () => {
  await expect(compile(true)).rejects.toThrow(/second\.cc.*kSize/s)
  writeFileSync(files[1]!, `#include "size.h"\n${readFileSync(files[1]!, 'utf8')}`)
  const units = await compile(true)
  expect(units.map(({ object }) => basename(object))).toEqual(['first.cc.o', 'second.cc.o'])
})

test('what has not changed is not compiled again; a header that has is', async () => {
  const [unit] = await compile(false)
  const made = () => statSync(unit!.object, { bigint: true }).ino
  const before = made()
  await compile(false)
  expect(made()).toBe(before)
  writeFileSync(join(folder, 'size.h'), '#include <cstddef>\nconstexpr std::size_t kSize = 5;\n')
  await compile(false)
  expect(made()).not.toBe(before)
})
