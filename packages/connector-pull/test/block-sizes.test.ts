/** Engines whose blocks hold different numbers of tokens, in either order: every byte at its place. */
import { isHeadMajor, type KvCacheLayout } from '@kvferry/connector-api'
import { relayoutOf } from '@kvferry/connector-api/protocol'
import type { EngineRequest } from '@kvferry/connector-api/testing'
import { describe, expect, test, vi } from 'vitest'
import { planRead } from '../src/read-plan.ts'
import { createPair, prompt, until, untilAllFree, type Pair } from './fixtures/world.ts'

/** Each token has 16 bytes in a region, of all heads together. */
const tokenSizeBytes = 16
const layouts: Record<string, Partial<KvCacheLayout>> = {
  LBNHC: { layout: 'LBNHC', kvHeadCount: 4 },
  LBHNC: { layout: 'LBHNC', kvHeadCount: 2 },
}

/** Where the bytes of one head of one token lie. */
function bytesOf(
  { caches }: Pair['p'],
  { blocks }: Pick<EngineRequest, 'blocks'>,
  at: { readonly region: number; readonly token: number; readonly head: number },
): Uint8Array {
  const { blockTokens, kvHeadCount, layout, regions } = caches
  const { memory, offsetBytes, blockStrideBytes } = regions[at.region]!
  const size = tokenSizeBytes / kvHeadCount
  const slot = at.token % blockTokens
  const unit = isHeadMajor(layout) ? at.head * blockTokens + slot : slot * kvHeadCount + at.head
  const block = blocks[Math.floor(at.token / blockTokens)]!
  const start = offsetBytes + block * blockStrideBytes + unit * size
  return memory.bytes!.subarray(start, start + size)
}

const placesOf = ({ caches }: Pair['p'], first: number, end: number) =>
  caches.regions.flatMap((_, region) =>
    Array.from({ length: caches.kvHeadCount }, (__, head) => head).flatMap((head) =>
      Array.from({ length: end - first }, (__, index) => ({ region, head, token: first + index })),
    ),
  )

const contentOf = (at: { region: number; token: number; head: number }): number =>
  (at.region * 101 + at.head * 37 + at.token * 7 + 3) % 251

/** A prefill on P whose every head of every token is marked, loaded by D. */
async function load(pair: Pair, tokenCount: number, hitTokenCount = 0): Promise<EngineRequest> {
  const { p, d } = pair
  const params = await p.prefill('p-r0', prompt, tokenCount)
  const source = p.requests.get('p-r0')!
  for (const at of placesOf(p, 0, tokenCount)) bytesOf(p, source, at).fill(contentOf(at))
  const request = d.admit('d-r0', tokenCount, params, hitTokenCount)
  d.step()
  await until(pair.world, () => request.outcome !== 'loading')
  expect(request.errorCode).toBe(null)
  return request
}

function wrongPlaces({ d }: Pair, request: EngineRequest, first: number, end: number): unknown[] {
  return placesOf(d, first, end).filter((at) =>
    bytesOf(d, request, at).some((byte) => byte !== contentOf(at)),
  )
}

describe.each(Object.entries(layouts))('%s', (layout, caches) => {
  const cases = [
    [8, 4],
    [4, 8],
    [4, 16],
    [16, 4],
    [2, 8],
  ].flatMap(([p, d]) => [1, 7, 8, 30, 32].map((tokenCount) => [p!, d!, tokenCount] as const))

  test.each(cases)('P has blocks of %i, D of %i tokens; %i tokens', async (p, d, tokenCount) => {
    const pair = await createPair({
      p: { blockTokens: p, caches },
      d: { blockTokens: d, caches },
    })
    const relayout = vi.spyOn(pair.world.fabric.kernels, 'relayout')
    const request = await load(pair, tokenCount)
    expect(wrongPlaces(pair, request, 0, tokenCount)).toEqual([])
    // Only where whole blocks of P go into parts of ours, heads first.
    expect(relayout).toHaveBeenCalledTimes(layout === 'LBHNC' && d > p ? 1 : 0)
    await untilAllFree(pair)
  })

  test.each([
    [8, 4, 12],
    [4, 8, 8],
    [4, 8, 16],
  ])('a local hit: P %i, D %i, %i tokens hit', async (p, d, hitTokenCount) => {
    const pair = await createPair({
      p: { blockTokens: p, caches },
      d: { blockTokens: d, caches },
    })
    const request = await load(pair, 30, hitTokenCount)
    expect(wrongPlaces(pair, request, hitTokenCount, 30)).toEqual([])
    // What was hit is the engine's, and stays as it was.
    expect(wrongPlaces(pair, request, 0, hitTokenCount)).not.toEqual([])
  })
})

describe('tokens and heads in another order at D', () => {
  const [byToken, byHead] = [layouts['LBNHC']!, { layout: 'LBHNC', kvHeadCount: 4 }]
  type Case = [string, number, number, Partial<KvCacheLayout>, Partial<KvCacheLayout>]
  const cases: readonly Case[] = [
    ['heads', byToken, byHead],
    ['tokens', byHead, byToken],
  ].flatMap(([first, p, d]) =>
    [
      [4, 4],
      [4, 8],
      [8, 4],
    ].map(([pTokens, dTokens]) => [first, pTokens, dTokens, p, d] as never),
  )
  test.each(cases)(
    '%s first; P has blocks of %i, D of %i tokens (17)',
    async (_, pTokens, dTokens, p, d) => {
      const pair = await createPair({
        p: { blockTokens: pTokens, caches: p },
        d: { blockTokens: dTokens, caches: d },
      })
      const relayout = vi.spyOn(pair.world.fabric.kernels, 'relayout')
      const request = await load(pair, 30, 8)
      expect(wrongPlaces(pair, request, 8, 30)).toEqual([])
      expect(relayout).toHaveBeenCalledTimes(1)
      await untilAllFree(pair)
    },
  )
})

test('blocks of P that are no whole number of ours are refused before anything is promised', async () => {
  const pair = await createPair({ p: { blockTokens: 4 }, d: { blockTokens: 6 } })
  const params = await pair.p.prefill('p-r0', prompt, 30)
  const request = pair.d.arrive('d-r0', 30, params)
  expect(pair.d.matched(request)).toBe(0)
  expect(pair.d.metrics.get('kv_messages_refused_total handoff')).toBe(1)
})

test('a READ that fails: no kernel works over what was not read (22)', async () => {
  const caches = layouts['LBHNC']!
  const pair = await createPair({ p: { blockTokens: 4, caches }, d: { blockTokens: 8, caches } })
  const relayout = vi.spyOn(pair.world.fabric.kernels, 'relayout')
  pair.world.fabric.faults.failNextPosts(pair.d.agent.name, 1)
  const failing = pair.d.admit('d-r0', 30, await pair.p.prefill('p-r0', prompt, 30))
  pair.d.step()
  await until(pair.world, () => failing.outcome !== 'loading')
  expect(failing.errorCode).toBe('ERR_KV_TRANSFER_FAILED')
  await untilAllFree(pair)
  expect(relayout).not.toHaveBeenCalled()
  // The next one of the same pair has its kernel.
  const good = pair.d.admit('d-r1', 30, await pair.p.prefill('p-r1', prompt, 30))
  pair.d.step()
  await until(pair.world, () => good.outcome === 'loaded')
  expect(relayout).toHaveBeenCalledTimes(1)
})

test('a kernel that fails fails the load, and P frees', async () => {
  const { caches } = { caches: layouts['LBHNC']! }
  const pair = await createPair({ p: { blockTokens: 4, caches }, d: { blockTokens: 8, caches } })
  vi.spyOn(pair.world.fabric.kernels, 'relayout').mockRejectedValue(new RangeError('broken'))
  const params = await pair.p.prefill('p-r0', prompt, 30)
  const request = pair.d.admit('d-r0', 30, params)
  pair.d.step()
  await until(pair.world, () => request.outcome !== 'loading')
  expect(request.errorCode).toBe('ERR_KV_TRANSFER_FAILED')
  await until(pair.world, () => pair.p.free.length === 64)
})

test('an abort while the kernel works: the blocks come back when it has ended', async () => {
  const caches = layouts['LBHNC']!
  const pair = await createPair({ p: { blockTokens: 4, caches }, d: { blockTokens: 8, caches } })
  let end = (): void => {}
  vi.spyOn(pair.world.fabric.kernels, 'relayout').mockImplementation(
    () => new Promise((resolve) => (end = resolve)),
  )
  const params = await pair.p.prefill('p-r0', prompt, 30)
  const request = pair.d.admit('d-r0', 30, params)
  pair.d.step()
  await until(pair.world, () => pair.d.agent.counters().transfersDone === 1)
  pair.d.finish('d-r0', 'aborted')
  await pair.world.clock.advance(50)
  expect(request.outcome).toBe('ended')
  end()
  await until(pair.world, () => request.outcome === 'freed', 50)
})

test('strides that leave none of P’s blocks whole: head by head', () => {
  const region = { name: 'l', memory: {} as never, offsetBytes: 0, blockCount: 4 }
  const caches = {
    ...{ model: 'm', dtype: 'd', layout: 'LBHNC', layerCount: 1, kvHeadCount: 2, headSize: 4 },
    ...{ blockTokens: 4, blockCount: 4 },
    regions: [{ ...region, blockSizeBytes: 64, blockStrideBytes: 80 }],
  }
  const handoff = { blockIds: Uint32Array.of(3, 1), tokenCount: 4, blockTokens: 2 }
  const order = {
    requestId: 'r',
    handoff,
    tokenEnd: 4,
    localBlockIds: [Uint32Array.of(2)],
  } as never
  const regions = [{ name: 'l', blockSizeBytes: 32, blockStrideBytes: 40 }]
  const facts = { layout: 'LBHNC', kvHeadCount: 2, blockTokens: 2, tpSize: 1, regions } as never
  const plan = planRead(
    order,
    { caches, table: 1 as never, rank: 0, tpSize: 1 },
    { facts, table: 2 as never, rank: 0 },
  )
  const run = { blockIds: Uint32Array.of(2), firstToken: 0, end: 4 }
  expect(relayoutOf(caches, facts, run)).toBe(null)
  expect(plan.local).toMatchObject({
    offsets: Float64Array.of(160, 176, 192, 208),
    lengths: Float64Array.of(16, 16, 16, 16),
  })
  expect(plan.remote).toMatchObject({ offsets: Float64Array.of(120, 40, 136, 56) })
})
