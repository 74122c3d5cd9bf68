import { asEngineId } from '@kvferry/connector-api'
import { expect, test } from 'vitest'
import { createPair, prompt, slowFabric, startLoad, until, untilAllFree } from './fixtures/world.ts'

const [p0, d0] = [asEngineId('p0'), asEngineId('d0')]

test('before allocation: P frees at once, and D wakes up to tell it (10)', async () => {
  const pair = await createPair()
  const params = await pair.p.prefill('p-r0', prompt, 30)
  pair.d.arrive('d-r0', 30, params)
  pair.d.finish('d-r0', 'aborted')
  expect(pair.d.scheduler.hasPendingBlockFrees()).toBe(true)
  await until(pair.world, () => pair.p.free.length === 64, 100)
  expect(pair.p.counter('leasesReleased')).toBe(1)
  expect(pair.d.outputs.flatMap(({ received }) => received)).toEqual([])
})

test('before the step that would have carried the load: it starts and ends as aborted (10)', async () => {
  const pair = await createPair()
  const params = await pair.p.prefill('p-r0', prompt, 30)
  const request = pair.d.admit('d-r0', 30, params)
  pair.d.finish('d-r0', 'aborted')
  await until(pair.world, () => request.outcome === 'freed', 100)
  await untilAllFree(pair, 100)
  expect(pair.d.counter('loadsAborted')).toBe(1)
})

test('with the load in one step, though its peer is ready: nothing is read (11)', async () => {
  // This was a bug: the abort met a load that was about to be posted, and ended the engine.
  const pair = await createPair()
  const warmUp = await startLoad(pair, { id: 'warm-up', tokenCount: 4 })
  await until(pair.world, () => warmUp.outcome === 'loaded')
  const params = await pair.p.prefill('p-r0', prompt, 30)
  const request = pair.d.admit('d-r0', 30, params)
  pair.d.finish('d-r0', 'aborted')
  pair.d.step()
  expect(request.outcome).toBe('freed')
  expect(pair.d.agent.counters().transfersPosted).toBe(1)
  await untilAllFree(pair, 100)
})

test('while connecting: reported at once, and P frees', async () => {
  const pair = await createPair()
  pair.world.channels.faults.partition(p0, d0)
  const request = await startLoad(pair)
  await pair.world.clock.advance(5)
  pair.d.finish('d-r0', 'aborted')
  await until(pair.world, () => request.outcome === 'freed', 5)
  pair.world.channels.faults.heal(p0, d0)
  await untilAllFree(pair, 100)
  expect(pair.d.agent.counters().transfersPosted).toBe(0)
  expect(pair.p.counter('leasesReleased')).toBe(1)
})

test('while reading: the blocks come back only when the READ has ended', async () => {
  const pair = await createPair({ times: slowFabric })
  const request = await startLoad(pair)
  await until(pair.world, () => pair.d.agent.counters().transfersOpen > 0)
  await pair.world.clock.advance(1)
  pair.d.finish('d-r0', 'aborted')
  // Also when the worker half has been told: somebody must step to fetch its report.
  pair.d.step()
  expect(pair.d.scheduler.hasPendingBlockFrees()).toBe(true)
  let openAtReport = -1
  await until(pair.world, () => {
    openAtReport = pair.d.agent.counters().transfersOpen
    return request.outcome === 'freed'
  })
  expect(openAtReport).toBe(0)
  // No verdict for a request that nobody waits for.
  expect(pair.d.outputs.flatMap(({ failed }) => failed)).toEqual([])
  expect(pair.d.outputs.flatMap(({ received }) => received)).toEqual(['d-r0'])
  await untilAllFree(pair, 100)
})

test('while reading, and the READ then fails: P is told', async () => {
  const pair = await createPair({ times: slowFabric })
  pair.world.fabric.faults.failNextPosts(pair.d.agent.name, 1)
  const request = await startLoad(pair)
  await until(pair.world, () => pair.d.agent.counters().transfersOpen > 0)
  pair.d.finish('d-r0', 'aborted')
  await until(pair.world, () => request.outcome === 'freed')
  await untilAllFree(pair, 100)
  expect(pair.p.counter('leasesReleased')).toBe(1)
})

test('while overdue: still not before the READ has ended', async () => {
  const pair = await createPair({ d: { options: { transferDeadlineMs: 1_000 } } })
  const warmUp = await startLoad(pair, { id: 'warm-up', tokenCount: 4 })
  await until(pair.world, () => warmUp.outcome === 'loaded')
  pair.world.fabric.faults.stall(pair.p.agent.name)
  const request = await startLoad(pair)
  await pair.world.clock.advance(1_100)
  pair.d.finish('d-r0', 'aborted')
  await pair.world.clock.advance(5_000)
  expect(request.outcome).toBe('ended')
  expect(pair.d.counter('blocksQuarantined')).toBe(8)
  pair.world.fabric.faults.unstall(pair.p.agent.name)
  await until(pair.world, () => request.outcome === 'freed')
  expect(pair.d.counter('blocksQuarantined')).toBe(0)
  await untilAllFree(pair)
})

test('while the lease is being checked: the READ has ended, so the blocks come back', async () => {
  const pair = await createPair()
  const warmUp = await startLoad(pair, { id: 'warm-up', tokenCount: 4 })
  await until(pair.world, () => warmUp.outcome === 'loaded')
  pair.world.channels.faults.partition(p0, d0)
  const request = await startLoad(pair)
  await until(pair.world, () => pair.d.agent.counters().transfersDone === 2)
  await pair.world.clock.advance(1)
  expect(request.outcome).toBe('loading')
  pair.d.finish('d-r0', 'aborted')
  await until(pair.world, () => request.outcome === 'freed', 10)
  pair.world.channels.faults.heal(p0, d0)
  await untilAllFree(pair)
})

test('between the load’s end and its report: one report, and nothing follows', async () => {
  const pair = await createPair()
  const request = await startLoad(pair)
  await until(pair.world, () => pair.d.agent.counters().transfersDone === 1)
  // The worker half knows; the engine has not stepped yet.
  pair.d.isHalted = true
  await pair.world.clock.advance(5)
  pair.d.isHalted = false
  pair.d.finish('d-r0', 'aborted')
  pair.d.requestStep()
  await until(pair.world, () => request.outcome === 'freed', 10)
  await pair.world.clock.advance(100)
  expect(pair.d.outputs.flatMap(({ received }) => received)).toEqual(['d-r0'])
})

test('after the load: an ordinary end', async () => {
  const pair = await createPair()
  const request = await startLoad(pair)
  await until(pair.world, () => request.outcome === 'loaded')
  expect(pair.d.finish('d-r0', 'aborted')).toBe(null)
  expect(request.outcome).toBe('freed')
  expect(pair.d.scheduler.hasPendingBlockFrees()).toBe(false)
})

test('a prefill that is aborted or fails leaves no lease', async () => {
  const pair = await createPair()
  for (const reason of ['aborted', 'failed'] as const) {
    const id = `p-${reason}`
    const request = pair.p.admit(id, 30, { do_remote_decode: true })
    pair.p.step()
    request.view = { ...request.view, computedTokenCount: 30 }
    expect(pair.p.finish(id, reason)).toBe(null)
    pair.p.step()
  }
  expect(pair.p.free.length).toBe(64)
  expect(pair.p.scheduler.hasPendingBlockFrees()).toBe(false)
  expect(pair.p.counter('leasesGranted')).toBe(0)
})

test('a preempted request does not ask again for what P has freed', async () => {
  const pair = await createPair()
  const request = await startLoad(pair)
  await until(pair.world, () => request.outcome === 'loaded')
  expect(pair.d.matched(request)).toBe(0)
  pair.d.allocate(request)
  pair.d.step(['d-r0'])
  await pair.world.clock.advance(50)
  expect(pair.d.agent.counters().transfersPosted).toBe(1)
  expect(pair.p.counter('leasesReleased')).toBe(0)
})

test('a failed load is not asked for again: the request is computed here', async () => {
  const pair = await createPair()
  pair.world.fabric.faults.failNextPosts(pair.d.agent.name, 1)
  const request = await startLoad(pair)
  await until(pair.world, () => request.outcome === 'failed')
  expect(pair.d.matched(request)).toBe(0)
})
