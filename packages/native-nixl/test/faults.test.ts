import { expect, test } from 'vitest'
import { Fixture } from './children.ts'
import { fakeLibraryPath } from './fake-library.ts'

interface Case {
  readonly mode: string
  /** Knobs of the fake library. */
  readonly knobs: string
  readonly expected: object
}

const cases: readonly Case[] = [
  { mode: 'create', knobs: 'fail_init=1', expected: { first: 'ERR_NIXL', second: 'ok' } },
  { mode: 'create', knobs: 'fail_backend=1', expected: { first: 'ERR_NIXL', second: 'ok' } },
  { mode: 'register', knobs: 'fail_register=1', expected: { first: 'ERR_NIXL', second: 'ok' } },
  {
    mode: 'transfer',
    knobs: 'fail_post=1',
    expected: { codes: ['ERR_KV_TRANSFER_FAILED', 'done'] },
  },
  {
    mode: 'transfer',
    knobs: 'fail_create=1',
    expected: { codes: ['ERR_KV_TRANSFER_FAILED', 'done'] },
  },
  {
    mode: 'stuck',
    knobs: 'never_complete=1',
    expected: { close: 'ERR_KV_DEADLINE', post: 'ERR_KV_CLOSED', open: 1 },
  },
  {
    mode: 'broken',
    knobs: 'fail_poll=1000000',
    expected: { broken: 'ERR_NIXL', metadata: 'ERR_NIXL', close: 'ok' },
  },
]

test.each(cases)('$mode with $knobs', async ({ mode, knobs, expected }) => {
  const child = new Fixture('faults', {
    parameters: [mode],
    environment: { TEST_NIXL_LIBRARY: fakeLibraryPath, KVFERRY_FAKE_NIXL: knobs },
  })
  try {
    expect(await child.message()).toEqual(expected)
    // Nothing of what failed, not even a transfer that never ends, keeps the process alive.
    expect(await child.exit(60_000), child.output).toEqual({ code: 0, signal: null })
  } finally {
    await child.kill()
  }
})

test.each(['never_complete=1', 'block_post_us=30000000'])(
  'process.exit with %s: the code is right, although a thread has to be left behind',
  async (knobs) => {
    const child = new Fixture('faults', {
      parameters: ['exit'],
      environment: { TEST_NIXL_LIBRARY: fakeLibraryPath, KVFERRY_FAKE_NIXL: knobs },
    })
    try {
      expect(await child.exit(60_000), child.output).toEqual({ code: 7, signal: null })
    } finally {
      await child.kill()
    }
  },
)
