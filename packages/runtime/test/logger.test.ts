/** Log lines: JSON, with what was given and nothing lost; on stderr unless told otherwise. */
import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { promisify } from 'node:util'
import ts from 'typescript'
import { describe, expect, it } from 'vitest'
import { createLogger, type LoggerOptions } from '../src/index.ts'

function capture(options: Partial<LoggerOptions> = {}) {
  const lines: string[] = []
  const destination = { write: (line: string) => void lines.push(line) }
  const logger = createLogger({ name: 'p0', destination, ...options })
  return { logger, entries: () => lines.map((line) => JSON.parse(line) as Record<string, unknown>) }
}

describe('an entry', () => {
  it('is one JSON line with name, level, time, message and fields', () => {
    const { logger, entries } = capture()
    logger.warn('peer refused', { from: '127.0.0.1', count: 2, isOpen: false, nothing: null })
    expect(entries()).toEqual([
      {
        level: 'warn',
        time: expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/) as string,
        pid: process.pid,
        name: 'p0',
        msg: 'peer refused',
        from: '127.0.0.1',
        count: 2,
        isOpen: false,
        nothing: null,
      },
    ])
  })

  it('stays one line whatever the message contains', () => {
    const { logger, entries } = capture()
    logger.error('two\nlines %s %d', { field: 'a\nb' })
    expect(entries()).toMatchObject([{ msg: 'two\nlines %s %d', field: 'a\nb' }])
  })

  it('carries the fields of its ancestors', () => {
    const { logger, entries } = capture()
    logger.child({ peer: 'd0' }).child({ kind: 'x' }).info('hello')
    logger.info('plain')
    expect(entries()[0]).toMatchObject({ peer: 'd0', kind: 'x', msg: 'hello' })
    expect(entries()[1]).not.toHaveProperty('peer')
  })

  it.each([
    ['debug', 4],
    ['info', 3],
    ['warn', 2],
    ['error', 1],
    ['silent', 0],
  ] as const)('below the level %s is not written', (level, count) => {
    const { logger, entries } = capture({ level })
    const child = logger.child({})
    child.debug('')
    child.info('')
    child.warn('')
    child.error('')
    expect(entries()).toHaveLength(count)
  })
})

it('goes to stderr, and nothing to stdout', async () => {
  // In a process of its own, because the test runner has its own idea of stdout. Node 20 runs no TypeScript.
  const source = await readFile(new URL('../src/logger.ts', import.meta.url), 'utf8')
  const options = { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2023 }
  const script = ts.transpileModule(source, { compilerOptions: options }).outputText
  const { stdout, stderr } = await promisify(execFile)(
    process.execPath,
    [
      '--input-type=module',
      '--eval',
      `${script}\ncreateLogger({ name: 'child' }).info('to stderr')`,
    ],
    { cwd: import.meta.dirname, timeout: 8_000 },
  )
  expect(stdout).toBe('')
  expect(JSON.parse(stderr)).toMatchObject({ name: 'child', msg: 'to stderr' })
})
