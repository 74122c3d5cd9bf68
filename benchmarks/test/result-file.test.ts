/** Where results may go, judged before anything is measured. */
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { assertWritable, makeDirectory } from '../src/lib/result-file.ts'
import { UsageError } from '../src/usage-error.ts'

let directory = ''
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'kvferry-bench-test-'))
})
afterAll(() => rmSync(directory, { recursive: true, force: true }))

test('a directory is made with those above it, and may be there already', () => {
  const path = join(directory, 'a', 'b')
  makeDirectory('results-dir', path)
  makeDirectory('results-dir', path)
  expect(existsSync(path)).toBe(true)
})

test('where none can be made: refused at once, with flag and path', () => {
  // Node's own way of making several never comes back from there.
  const wrong = /^--keep-logs \/proc\/x\/y: no directory can be made there: ENOENT/
  expect(() => makeDirectory('keep-logs', '/proc/x/y')).toThrow(wrong)
  const file = join(directory, 'file')
  writeFileSync(file, '')
  expect(() => makeDirectory('results-dir', file)).toThrow(/a file has that name/)
  expect(() => makeDirectory('results-dir', join(file, 'x'))).toThrow(UsageError)
})

test('a result does not go where a directory is, or into none', () => {
  expect(() => assertWritable('html', directory)).toThrow(/that is a directory; name a file/)
  expect(() => assertWritable('json', join(directory, 'none', 'x.json'))).toThrow(/does not exist/)
  assertWritable('json', join(directory, 'x.json'))
  assertWritable('json', '-')
})
