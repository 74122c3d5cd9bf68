/**
 * Handshakes, registrations and agents that come and go. vLLM bounds a cache of UCX by an environment variable
 * (#24264) because its hosts' memory grew with them; here nothing may be left of any of them.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { Fixture } from './children.ts'
import { fakeLibraryPath, readCounters } from './fake-library.ts'
import type { measure } from './fixtures/measure.ts'
import { describeWithNixl } from './nixl-availability.ts'

interface Report {
  readonly before: ReturnType<typeof measure>
  readonly after: ReturnType<typeof measure>
}

const folder = mkdtempSync(join(tmpdir(), 'kvferry-handshakes-'))
afterAll(() => rmSync(folder, { recursive: true }))

async function run(
  roundCount: number,
  environment: Readonly<Record<string, string>>,
  kinds = 'stays,anew',
) {
  const parameters = [String(roundCount), kinds]
  const child = new Fixture('handshakes', { parameters, environment })
  try {
    const report = await child.message<Report>()
    expect(await child.exit(60_000), child.output).toEqual({ code: 0, signal: null })
    return report
  } finally {
    await child.kill()
  }
}

/** Of all kinds of handles of the library: how many are left at the end, and the most that there were at once. */
async function handlesAfter(roundCount: number) {
  const path = join(folder, 'counters')
  const { before, after } = await run(roundCount, {
    TEST_NIXL_LIBRARY: fakeLibraryPath,
    KVFERRY_FAKE_NIXL_COUNTERS: path,
  })
  expect(after).toEqual({ ...before, residentKiB: after.residentKiB })
  const counters = readCounters(path)
  const of = (prefix: string) =>
    Object.fromEntries(Object.entries(counters).filter(([name]) => name.startsWith(prefix)))
  return { connections: counters['connections'], left: of('live_'), most: of('most.') }
}

test('#24264 ten times the handshakes, registrations and requests: no more handles, none left', async () => {
  const few = await handlesAfter(20)
  const many = await handlesAfter(200)
  expect([few.connections, many.connections]).toEqual([60, 420])
  expect(Object.keys(many.left).toSorted()).toEqual([
    ...['live_agents', 'live_lists', 'live_maps', 'live_options', 'live_params'],
    ...['live_remotes', 'live_requests'],
  ])
  for (const { left } of [few, many]) {
    expect(Object.entries(left).filter(([, value]) => value !== 0)).toEqual([])
  }
  expect(many.most).toEqual(few.most)
  expect(many.most['most.registered']).toBe(2)
}, 120_000)

describe.each(['sm,self,tcp', 'tcp'])('over UCX_TLS=%s', (transports) => {
  const roundCount = 40
  const environment = { UCX_TLS: transports }
  describeWithNixl(() => {
    test('#24264 agents that are new each time leave neither descriptors nor threads', async () => {
      const { before, after } = await run(roundCount, environment, 'anew')
      expect(after).toEqual({ ...before, residentKiB: after.residentKiB })
    }, 120_000)

    test('#24264 agents that stay and connect anew keep at most a socket each', async () => {
      // The library closes the endpoint, and UCX keeps its connection while both ends live (NIXL #2025).
      const { before, after } = await run(roundCount, environment, 'stays')
      expect(after.descriptors - before.descriptors).toBeLessThanOrEqual(2 * roundCount)
      expect(after).toEqual({
        ...before,
        ...{ residentKiB: after.residentKiB, descriptors: after.descriptors },
      })
    }, 120_000)
  })
})
