/** `gpus`: which number decides each bar, what is not judged, and that the whole of it runs, in host memory over real NIXL. */
import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { isNixlAvailable } from '@kvferry/native-nixl'
import { describe, expect, it, onTestFinished } from 'vitest'
import { judgeGpus } from '../src/gpus/bars.ts'
import { scatteredIds } from '../src/gpus/blocks.ts'
import { prepareBare } from '../src/gpus/descriptors.ts'
import { gridCase } from '../src/gpus/paths.ts'
import type { GpusParts, PathCase } from '../src/gpus/result.ts'
import { runGpus } from '../src/gpus/run-gpus.ts'
import { PairOfChildren } from '../src/gpus/side.ts'
import { splitHalfSpread } from '../src/gpus/statistics.ts'
import { renderGpus } from '../src/gpus/table.ts'
import { assertMatchesSchema } from '../src/lib/result-schema.ts'
import { buildBareLoop, Participants } from '../src/micro/participants.ts'

const mib = 1_048_576
const linked = { isLinked: true, isOnGpu: true }
const nothing: GpusParts = { descriptors: [], paths: [], cost: [], tiers: [] }

const pathCase = (path: PathCase['path'], gigabytesPerSecond: number, more = {}): PathCase => ({
  ...{ path, rounds: 5, us: 1_000 / gigabytesPerSecond, wallUs: 100, threadUs: 50, cpuUs: 90 },
  ...{ spread: 0.02, gigabytesPerSecond, took: path === 'auto' ? 'ipc' : path, ...more },
})

const descriptors = (more: Partial<GpusParts['descriptors'][0]> = {}) => ({
  ...{ direction: 'write' as const, blockBytes: 4_096, totalBytes: 256 * mib, pairs: 9 },
  ...{
    oursUs: 100,
    oursWallUs: 130,
    bareUs: 97,
    ratio: 0.97,
    ratioInterval: [0.96, 0.98] as const,
  },
  ...{ spread: 0.01, gigabytesPerSecond: 5, ...more },
})

const grid = (rates: Partial<Record<PathCase['path'], number>>, blockBytes = 4_096) =>
  gridCase(
    { direction: 'write', blockBytes, totalBytes: 256 * mib },
    Object.entries(rates).map(([path, rate]) => pathCase(path as PathCase['path'], rate)),
  )

const verdicts = (parts: Partial<GpusParts>, where = linked) =>
  judgeGpus({ ...nothing, ...parts }, where).map(({ subject, verdict }) => `${subject}: ${verdict}`)

describe('bars', () => {
  it('descriptors: 95 % of the bare loop less the A-A spread, and too much of that decides nothing', () => {
    const of = (more: object) => verdicts({ descriptors: [descriptors(more)] })
    expect(of({})).toEqual(['descriptors write, blocks of 4 KiB: held'])
    expect(of({ ratio: 0.93 })).toEqual(['descriptors write, blocks of 4 KiB: missed'])
    expect(of({ ratio: 0.93, spread: 0.03 })).toEqual(['descriptors write, blocks of 4 KiB: held'])
    expect(of({ spread: 0.21 })).toEqual(['descriptors write, blocks of 4 KiB: too-noisy'])
  })

  it('one block of 256 MiB has a rate to keep', () => {
    const of = (gigabytesPerSecond: number) =>
      verdicts({ descriptors: [descriptors({ blockBytes: 256 * mib, gigabytesPerSecond })] })
    expect(of(386)[1]).toBe('descriptors write, one block of 256 MiB: held')
    expect(of(384)[1]).toBe('descriptors write, one block of 256 MiB: missed')
  })

  it('slabs and ipc: the slowest block size decides', () => {
    const paths = [
      grid({ descriptors: 1, slabs: 310, ipc: 350, auto: 350 }),
      grid({ descriptors: 16, slabs: 305, ipc: 339, auto: 339 }, 65_536),
    ]
    const found = verdicts({ paths })
    expect(found).toContain('slabs write: held')
    expect(found).toContain('ipc write: missed')
  })

  it('auto: within a tenth of the best path, or its spread, at every point', () => {
    const at = (auto: number) => verdicts({ paths: [grid({ descriptors: 1, ipc: 350, auto })] })
    expect(at(320)).toContain('auto write: held')
    expect(at(315)).toContain('auto write: missed')
    const noisy = gridCase({ direction: 'write', blockBytes: 4_096, totalBytes: mib }, [
      pathCase('ipc', 350, { spread: 0.2 }),
      pathCase('auto', 300),
    ])
    expect(noisy.autoAllowed).toBe(0.2)
    expect(verdicts({ paths: [noisy] })).toContain('auto write: held')
  })

  it('cost of a prompt’s KV: the thread’s and the wall’s', () => {
    const of = (more: object) => {
      const paths = [pathCase('ipc', 300), pathCase('auto', 300, more)]
      return verdicts({
        cost: [{ direction: 'read', pieces: 24_576, totalBytes: 96 * mib, paths }],
      }).map((text) => text.split(': ')[1])
    }
    expect(of({})).toEqual(['held', 'held'])
    expect(of({ threadUs: 501 })).toEqual(['missed', 'held'])
    expect(of({ wallUs: 2_001 })).toEqual(['held', 'missed'])
  })

  it('tiers: 50 GB/s each way at 64 KiB; judged on one GPU, too, and nothing else is', () => {
    const tier = (direction: 'down' | 'up', gigabytesPerSecond: number) => ({
      ...{ direction, blockBytes: 65_536, totalBytes: mib, rounds: 3, us: 1, spread: 0 },
      gigabytesPerSecond,
    })
    const parts = { tiers: [tier('down', 51), tier('up', 49)], descriptors: [descriptors()] }
    expect(verdicts(parts, { isLinked: false, isOnGpu: true })).toEqual([
      'descriptors write, blocks of 4 KiB: not-judged',
      'tier copies down, blocks of 64 KiB: held',
      'tier copies up, blocks of 64 KiB: missed',
    ])
    expect(verdicts(parts, { isLinked: false, isOnGpu: false })[1]).toMatch(/not-judged$/)
  })
})

it('blocks: each once, none a neighbour, in another order on either side', () => {
  for (const count of [1, 2, 64, 65_536]) {
    const [local, remote] = [scatteredIds(count, 'local'), scatteredIds(count, 'remote')]
    for (const ids of [local, remote]) {
      expect(new Set(ids).size).toBe(count)
      expect(ids.every((id) => id % 2 === 0 && id < 2 * count)).toBe(true)
    }
    if (count > 2) expect(local).not.toEqual(remote)
  }
  expect(() => scatteredIds(500, 'local')).toThrow(RangeError)
})

it('the spread of halves', () => {
  expect(splitHalfSpread([10, 12, 10, 12])).toBeCloseTo(0.2)
  expect(splitHalfSpread([10])).toBe(0)
})

const childScript = join(dirname(fileURLToPath(import.meta.url)), '..', 'dist', 'gpus-child.js')
const canRun = isNixlAvailable().available && existsSync(childScript)

describe.skipIf(!canRun && process.env['KVFERRY_REQUIRE_NIXL'] !== '1')(
  'over real NIXL (needs it, the build, and a compiler)',
  () => {
    it('sees a byte that is wrong, of ours and of the bare loop', async () => {
      const available = isNixlAvailable()
      if (!available.available) throw available.error
      const { signal } = new AbortController()
      const bareLoop = await buildBareLoop()
      const participants = new Participants({ libraryPath: available.path, bareLoop, signal })
      onTestFinished(() => participants.stop())
      const memory = { place: null, poolBytes: 2 * mib, tables: [4_096] }
      const target = await participants.gpus('wrong-target', memory)
      const pair = await PairOfChildren.connect(await participants.gpus('wrong', memory), target)
      const order = { path: 'descriptors', direction: 'write', table: 4_096, count: 64 } as const
      const source = await pair.fillSource(order)
      await pair.verifiedRound(order, source)
      await expect(pair.verifiedRound(order, { digest: 'another' })).rejects.toThrow(
        /descriptors write of 64 × 4096 B: a byte is wrong/,
      )
      await pair.verifyTier({ table: 4_096, count: 64 })

      const bare = { place: null, regionBytes: 2 * mib, variables: {} }
      const bareTarget = await participants.bareOn('bare-target', bare)
      const { process: initiator } = await participants.bareOn('bare-initiator', bare)
      await bareTarget.process.request('watch')
      await initiator.request(['connect', ...bareTarget.words, 0].join(' '))
      await prepareBare({ initiator, target: bareTarget.process })
      await initiator.request('move write 4096 64')
      await bareTarget.process.request('scattered remote 4096 64 4 3')
      await expect(bareTarget.process.request('scattered remote 4096 32 4 3')).rejects.toThrow(
        /a byte is wrong/,
      )
    })

    it('measures all parts in host memory, verifies every byte, and judges nothing', async () => {
      const result = await runGpus({ devices: ['cpu', 'cpu'], totalMibMax: 4 })
      assertMatchesSchema('gpus', result)
      expect(result.descriptors).toHaveLength(8)
      expect(result.paths).toHaveLength(2 * (4 + 5))
      expect(result.tiers).toHaveLength(10)
      // The KV of a prompt is larger than this pool.
      expect(result.cost).toEqual([])
      expect(result.bars.every(({ verdict }) => verdict === 'not-judged')).toBe(true)
      expect(result.verdict).toEqual({ ok: true, warnings: [], failures: [] })
      expect(renderGpus(result)).toContain('every destination verified')
    })
  },
)
