import type { Association, KvTransferParams, SideChannel } from '@kvferry/connector-api'
import { delegate } from '@kvferry/connector-api/conformance'
import { expect, test } from 'vitest'
import { createPair, prompt, startLoad, until, untilAllFree } from './fixtures/world.ts'

test.each([1, 3, 4, 5, 8, 31])(
  'a prompt of %i tokens arrives byte for byte',
  async (tokenCount) => {
    const pair = await createPair({ seed: tokenCount })
    const request = await startLoad(pair, { tokenCount })
    expect(request.outcome).toBe('loading')
    await until(pair.world, () => request.outcome === 'loaded')
    expect(await pair.d.isLoadedRight(request, prompt)).toBe(true)
    // P frees at the reader's word, long before the lease would end.
    await until(pair.world, () => pair.p.free.length === 64, 100)
    expect(pair.p.counter('leasesRead')).toBe(1)
    expect(pair.p.scheduler.hasPendingBlockFrees()).toBe(false)
    await untilAllFree(pair)
  },
)

test('blocks are held until the reader’s word, and P goes on stepping for them (1)', async () => {
  const pair = await createPair()
  await pair.p.prefill('p-r0', prompt, 30)
  expect(pair.p.free.length).toBe(56)
  expect(pair.p.scheduler.hasPendingBlockFrees()).toBe(true)
  await pair.world.clock.advance(29_000)
  expect(pair.p.free.length).toBe(56)
})

test('a partial local hit: only the rest is read, from the end of P’s blocks', async () => {
  const pair = await createPair()
  const request = await startLoad(pair, { tokenCount: 30, hitTokenCount: 12 })
  await until(pair.world, () => request.outcome === 'loaded')
  expect(await pair.d.isLoadedRight(request, prompt)).toBe(true)
  // 8 blocks less 3 that were hit, two layers of 64 bytes each.
  expect(pair.d.stats.flatMap(({ loads }) => loads)).toMatchObject([{ bytes: 5 * 2 * 64 }])
  await untilAllFree(pair)
})

test('a full local hit: nothing is read, and P frees at once', async () => {
  const pair = await createPair()
  const request = await startLoad(pair, { tokenCount: 32, hitTokenCount: 32 })
  expect(request.outcome).toBe('running')
  await until(pair.world, () => pair.p.free.length === 64, 100)
  expect(pair.p.counter('leasesReleased')).toBe(1)
  expect(pair.d.outputs.flatMap(({ received }) => received)).toEqual([])
  expect(pair.d.agent.counters().transfersPosted).toBe(0)
  await untilAllFree(pair)
})

test('fewer missing tokens than the threshold are computed, and P frees at once', async () => {
  const pair = await createPair({ d: { options: { recomputeThreshold: 7 } } })
  const few = await startLoad(pair, { id: 'few', tokenCount: 30, hitTokenCount: 24 })
  expect(few.outcome).toBe('running')
  const enough = await startLoad(pair, { id: 'enough', tokenCount: 31, hitTokenCount: 24 })
  expect(enough.outcome).toBe('loading')
  await untilAllFree(pair)
})

test('all loads of a step leave in one post and share one handshake (13)', async () => {
  const pair = await createPair()
  const posts: number[] = []
  const post = pair.d.agent.post.bind(pair.d.agent)
  pair.d.agent.post = (list, options) => {
    posts.push(list.length)
    return post(list, options)
  }
  const params: KvTransferParams[] = []
  for (const id of ['a', 'b', 'c', 'd']) params.push(await pair.p.prefill(`p-${id}`, prompt, 9))
  const first = [0, 1].map((at) => pair.d.admit(`d-${at}`, 9, params[at]!))
  pair.d.step()
  await until(pair.world, () => first.every(({ outcome }) => outcome === 'loaded'))
  const second = [2, 3].map((at) => pair.d.admit(`d-${at}`, 9, params[at]!))
  expect(posts).toEqual([2])
  pair.d.step()
  // The connection is ready: they leave inside the step that carries them.
  expect(posts).toEqual([2, 2])
  await until(pair.world, () => second.every(({ outcome }) => outcome === 'loaded'))
  expect(pair.d.counter('handshakesDone')).toBe(1)
  await untilAllFree(pair)
})

test('the questions for the leases of a step are with the system before its READs are posted', async () => {
  const done: string[] = []
  const heard = (association: Association): Association =>
    delegate(association, {
      request(kind, body, options) {
        done.push(kind)
        return association.request(kind, body, options)
      },
      flush() {
        done.push('flush')
        association.flush()
      },
    })
  const wrapSideChannel = (channel: SideChannel): SideChannel =>
    delegate(channel, {
      connect: async (address, options) => heard(await channel.connect(address, options)),
    })
  const pair = await createPair({ d: { wrapSideChannel } })
  const warmUp = await startLoad(pair, { id: 'warm-up' })
  await until(pair.world, () => warmUp.outcome === 'loaded')
  const post = pair.d.agent.post.bind(pair.d.agent)
  pair.d.agent.post = (list, options) => {
    done.push(`post of ${list.length}`)
    return post(list, options)
  }
  const params: KvTransferParams[] = []
  for (const id of ['a', 'b']) params.push(await pair.p.prefill(`p-${id}`, prompt, 9))
  const loads = params.map((one, at) => pair.d.admit(`d-${at}`, 9, one))
  done.length = 0
  pair.d.step()
  expect(done).toEqual(['pull.renew', 'pull.renew', 'flush', 'post of 2'])
  await until(pair.world, () => loads.every(({ outcome }) => outcome === 'loaded'))
  await untilAllFree(pair)
})

test('inline posting: the READ is posted when the step’s hook returns', async () => {
  const pair = await createPair({ d: { options: { posting: 'inline' } } })
  const warmUp = await startLoad(pair, { id: 'warm-up' })
  await until(pair.world, () => warmUp.outcome === 'loaded')
  const params = await pair.p.prefill('p-r1', prompt, 30)
  await pair.world.clock.advance(10)
  const request = pair.d.admit('d-r1', 30, params)
  pair.d.step()
  expect(await pair.d.isLoadedRight(request, prompt)).toBe(true)
  await until(pair.world, () => request.outcome === 'loaded')
  await untilAllFree(pair)
})

test('#45211, #53333 background posting: the step’s hook has only enqueued it (14)', async () => {
  // Upstream: the engine's thread built and posted each READ, for 7 ms and more.
  const pair = await createPair()
  const warmUp = await startLoad(pair, { id: 'warm-up' })
  await until(pair.world, () => warmUp.outcome === 'loaded')
  const request = await startLoad(pair, { id: 'r1' })
  expect(await pair.d.isLoadedRight(request, prompt)).toBe(false)
  await until(pair.world, () => request.outcome === 'loaded')
})

test('both roles at once: each engine reads from the other', async () => {
  const pair = await createPair()
  const back = { ...pair, p: pair.d, d: pair.p }
  const there = await startLoad(pair, { id: 'there' })
  const here = await startLoad(back, { id: 'here' })
  await until(pair.world, () => there.outcome === 'loaded' && here.outcome === 'loaded')
  expect(await pair.d.isLoadedRight(there, prompt)).toBe(true)
  expect(await pair.p.isLoadedRight(here, prompt)).toBe(true)
})

test('a sample of each load tells where its time went', async () => {
  const pair = await createPair()
  const boundAt = pair.world.clock.now()
  const request = await startLoad(pair)
  await until(pair.world, () => request.outcome === 'loaded')
  const [sample] = pair.d.stats.flatMap(({ loads }) => loads)
  expect(sample).toMatchObject({
    requestId: 'd-r0',
    bindAtMs: boundAt,
    bytes: 8 * 2 * 64,
    descriptorsBeforeMerge: 16,
  })
  expect(sample!.handshakeMs).toBeGreaterThan(0)
  expect(sample!.wireUs).toBeGreaterThan(0)
  const readAtMs = sample!.bindAtMs + sample!.handshakeMs + sample!.wireUs / 1_000
  expect(sample!.completeAtMs).toBeGreaterThanOrEqual(readAtMs)
  expect(pair.d.metrics.get('kv_transfer_bytes_total read')).toBe(8 * 2 * 64)
})

test('P polls from the first handshake to the wired-up word, and while a lease is open', async () => {
  const pair = await createPair()
  const calls: boolean[] = []
  const expectNotifications = pair.p.agent.expectNotifications.bind(pair.p.agent)
  pair.p.agent.expectNotifications = (isExpected) => {
    calls.push(isExpected)
    expectNotifications(isExpected)
  }
  const request = await startLoad(pair)
  await until(pair.world, () => request.outcome === 'loaded')
  await untilAllFree(pair)
  await pair.world.clock.advance(10)
  expect(calls).toEqual([true, false])
  // Wired up: from now on only leases count.
  const next = await startLoad(pair, { id: 'r1' })
  await until(pair.world, () => next.outcome === 'loaded')
  await untilAllFree(pair)
  expect(calls).toEqual([true, false, true, false])
})
