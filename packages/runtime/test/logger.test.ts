/** Log lines: JSON, with what was given and nothing lost; on stderr unless told otherwise. */
import fs from 'node:fs'
import { describe, expect, it, vi } from 'vitest'
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

it('goes to stderr, at once, and nothing to stdout', () => {
  const writes: { fd: number; text: string }[] = []
  const spy = vi.spyOn(fs, 'writeSync').mockImplementation(((fd: number, text: unknown) => {
    writes.push({ fd, text: String(text) })
    return Buffer.byteLength(String(text))
  }) as typeof fs.writeSync)
  try {
    createLogger({ name: 'p0' }).child({ a: 1 }).info('to stderr')
  } finally {
    spy.mockRestore()
  }
  expect(writes.map(({ fd }) => fd)).toEqual([2])
  expect(JSON.parse(writes[0]?.text ?? '')).toMatchObject({ name: 'p0', a: 1, msg: 'to stderr' })
})
