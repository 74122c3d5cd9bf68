/** Other backends of NIXL than UCX, and several at once: over the fake, which counts what each of them is asked for. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { Fixture } from './children.ts'
import { fakeLibraryPath, readCounters } from './fake-library.ts'

const folder = mkdtempSync(join(tmpdir(), 'kvferry-backends-'))
afterAll(() => rmSync(folder, { recursive: true }))

/** What two agents with these backends said, and what the library counted until their process ended. */
async function runWith(backends: readonly string[], knobs = '') {
  const path = join(folder, 'counters')
  const child = new Fixture('backends', {
    parameters: [backends.join(',')],
    environment: {
      TEST_NIXL_LIBRARY: fakeLibraryPath,
      KVFERRY_FAKE_NIXL: knobs,
      KVFERRY_FAKE_NIXL_COUNTERS: path,
    },
  })
  try {
    const said = await child.message<{ statuses?: string[]; code?: string; message?: string }>()
    expect(await child.exit(60_000), child.output).toEqual({ code: 0, signal: null })
    return { said, counters: readCounters(path) }
  } finally {
    await child.kill()
  }
}

const countsOf = (counters: Readonly<Record<string, number>>, name: string) =>
  ['created', 'registrations', 'posts'].map((of) => counters[`${of}.${name}`] ?? 0)

const errorMode = 'parameter.UCX.ucx_error_handling_mode.peer'

test('LIBFABRIC alone: it is created, registers all memory and carries every transfer', async () => {
  const { said, counters } = await runWith(['LIBFABRIC'])
  expect(said.statuses).toEqual(['done', 'done', 'done'])
  expect(countsOf(counters, 'LIBFABRIC')).toEqual([2, 2, 3])
  expect(countsOf(counters, 'UCX')).toEqual([0, 0, 0])
  // Parameters are of one backend: this one gets nothing of UCX's.
  expect(Object.keys(counters).filter((name) => name.startsWith('parameter.'))).toEqual([])
})

test.each([
  [['UCX', 'LIBFABRIC'], 'UCX', 'LIBFABRIC'],
  [['LIBFABRIC', 'UCX'], 'LIBFABRIC', 'UCX'],
])('%j: both register the memory, the first carries', async (backends, first, second) => {
  const { said, counters } = await runWith(backends)
  expect(said.statuses).toEqual(['done', 'done', 'done'])
  expect(countsOf(counters, first)).toEqual([2, 2, 3])
  expect(countsOf(counters, second)).toEqual([2, 2, 0])
  expect(counters[errorMode]).toBe(2)
})

test('a backend that isn’t created: ERR_NIXL names it and the library, and nothing stays', async () => {
  const { said, counters } = await runWith(['UCX', 'LIBFABRIC'], 'fail_backend.LIBFABRIC=2')
  expect(said.code).toBe('ERR_NIXL')
  expect(said.message).toContain(
    `create_backend answered BACKEND (LIBFABRIC of ${fakeLibraryPath})`,
  )
  const living = Object.entries(counters).filter(([name]) => name.startsWith('live_'))
  expect(living.filter(([, value]) => value !== 0)).toEqual([])
})
