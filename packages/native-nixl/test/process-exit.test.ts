import { describe, expect, test } from 'vitest'
import { Fixture } from './children.ts'
import { fakeLibraryPath } from './fake-library.ts'
import { describeWithNixl } from './nixl-availability.ts'
import { findLibrary } from '../src/library-path.ts'

/** Far above what an end takes (under a second), far below a hang. */
const limitMs = 60_000

const modes: readonly (readonly [
  mode: string,
  code: number | null,
  signal: NodeJS.Signals | null,
])[] = [
  ['idle', 0, null],
  ['after-transfers', 0, null],
  ['closed', 0, null],
  ['process-exit', 3, null],
  ['exit-in-listener', 4, null],
  ['uncaught', 1, null],
  ['throw-in-listener', 1, null],
  ['signal', null, 'SIGTERM'],
  ['hangup', null, 'SIGHUP'],
  ['worker-ends', 0, null],
  ['worker-terminated', 0, null],
  ['exit-beside-worker', 5, null],
  ['worker-exits', 6, null],
]

function testModes(libraryPath: string): void {
  test.each(modes)('%s', { timeout: limitMs + 10_000 }, async (mode, code, signal) => {
    const child = new Fixture('exit', {
      parameters: [mode],
      environment: { TEST_NIXL_LIBRARY: libraryPath },
    })
    const end = await child.exit(limitMs)
    expect(end, child.output).toEqual({ code, signal })
    // Whatever ends a process, it is never the native half.
    expect(child.output).not.toMatch(/FATAL ERROR|Segmentation|fake NIXL:/)
  })
}

describe('a process with agents ends as it should, over the fake library', () => {
  testModes(fakeLibraryPath)
})

describeWithNixl(() => {
  describe('a process with agents ends as it should, over NIXL', () => {
    testModes(findLibrary())
  })
})
