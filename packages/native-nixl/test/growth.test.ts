import { describe, expect, test } from 'vitest'
import { Fixture } from './children.ts'
import { fakeLibraryPath } from './fake-library.ts'
import { describeWithNixl } from './nixl-availability.ts'
import { findLibrary } from '../src/library-path.ts'

interface Measured {
  readonly descriptors: number
  readonly residentKiB: number
  readonly threads: number
  readonly resources: readonly string[]
}

interface Report {
  readonly before: Measured
  readonly after: Measured
  readonly counters: { readonly transfersDone: number; readonly transfersOpen: number }
}

const transferCount = 10_000
/** Noise of the allocator and of V8; a leak of 1 KiB per transfer would be 10 MiB. */
const residentGrowthKiBMax = 8 * 1_024

async function checkGrowth(libraryPath: string, environment: Record<string, string> = {}) {
  const child = new Fixture('growth', {
    parameters: [String(transferCount)],
    environment: { TEST_NIXL_LIBRARY: libraryPath, ...environment },
  })
  try {
    const { before, after, counters } = await child.message<Report>()
    expect(counters.transfersDone).toBe(transferCount * 1.2)
    expect(counters.transfersOpen).toBe(0)
    expect(after.descriptors).toBe(before.descriptors)
    expect(after.threads).toBe(before.threads)
    expect(after.resources).toEqual(before.resources)
    expect(after.residentKiB - before.residentKiB).toBeLessThan(residentGrowthKiBMax)
  } finally {
    await child.kill()
  }
}

describe(`${transferCount} transfers leave nothing behind`, { timeout: 240_000 }, () => {
  test('over the fake library', () => checkGrowth(fakeLibraryPath))
  describeWithNixl(() => {
    test('over shared memory', () => checkGrowth(findLibrary(), { UCX_TLS: 'sm,self,tcp' }))
    test('over TCP', () => checkGrowth(findLibrary(), { UCX_TLS: 'tcp' }))
  })
})
