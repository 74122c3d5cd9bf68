/** How engines end, and what they leave; under the names of Xavier's requirements (decision 12). */
import { digestTokens, asRequestId } from '@kvferry/connector-api'
import { createWorld, Engine, until as untilIn } from '@kvferry/connector-api/testing'
import { expect, test } from 'vitest'
import { xavier } from '../../src/index.ts'
import { decodeMetadata } from '../../src/metadata.ts'
import {
  agentOf,
  counter,
  handoff,
  open,
  serve,
  settle,
  shortLives,
  until,
  untilServed,
  untilWriting,
} from '../fixtures/story.ts'

const step = { stepIndex: 0, scheduled: [], preemptedRequestIds: [] }

test('RT-13: N = 33 and 30 of 16 a block: all tokens, the blocks that hold them, and no block id leaves', async () => {
  const cluster = await open({ engines: { blockTokens: 16 } })
  const { scheduler } = cluster.engine('p0').host
  const held = [
    [33, [1, 2, 3]],
    [30, [1, 2]],
  ] as const
  for (const [promptTokenCount, blockIds] of held) {
    const request = {
      ...{ requestId: asRequestId(`n${promptTokenCount}`), promptTokenCount, finishReason: null },
      ...{ promptDigest: digestTokens([promptTokenCount]), computedTokenCount: promptTokenCount },
      kvTransferParams: { do_remote_decode: true, do_remote_prefill: false },
    }
    const blocks = [Uint32Array.of(1, 2, 3)]
    scheduler.onNewRequest(request)
    expect(scheduler.getNumNewMatchedTokens(request, 0)).toEqual({ tokens: 0, isAsync: false })
    scheduler.updateStateAfterAlloc(request, blocks, 0)
    const ended = { ...request, finishReason: 'length-capped' } as const
    const { delayFree, kvTransferParams } = scheduler.requestFinished(ended, blocks)
    expect(delayFree).toBe(true)
    expect(kvTransferParams).toMatchObject({ remote_num_tokens: promptTokenCount })
    expect(JSON.stringify(kvTransferParams)).not.toContain('block')
    // Without a history there are no keys.
    const entries = decodeMetadata(scheduler.buildConnectorMeta(step))
    expect(entries.filter(({ kind }) => kind === 'register')).toMatchObject([
      {
        ...{ prompt: { tokenCount: promptTokenCount }, keys: new Uint8Array() },
        blockIds: Uint32Array.from(blockIds),
      },
    ])
  }
})

test('RT-23: a read that ends half-way makes all blocks of its load invalid, and no other load', async () => {
  const cluster = await open({ producerCount: 2 })
  const journey = serve(cluster)
  const other = serve(cluster, { id: 'other', prompt: 2, producer: 'p1' })
  await untilWriting(cluster)
  await cluster.world.clock.advance(1)
  cluster.kill('p0')
  await untilServed(cluster, journey)
  await untilServed(cluster, other)
  expect([journey.outcome, other.consumer!.loadError]).toEqual(['done', null])
  const failed = cluster.engine('d0').host.outputs.flatMap((output) => output.failed)
  // 30 tokens in blocks of four.
  expect(failed.map(({ requestId, blockIds }) => [requestId, blockIds[0]!.length])).toEqual([
    [journey.consumer!.id, 8],
  ])
  await cluster.settle(60_000)
  cluster.auditor.assertClean()
})

test('P2: a request that its client gave up leaves no ticket', async () => {
  const cluster = await open({ engines: { stepMs: 50, stepTokenCountMax: 16 } })
  const journey = serve(cluster)
  await cluster.world.clock.advance(20)
  cluster.engine('p0').abort(journey.producer!.id)
  await settle(cluster)
  expect(journey.handoff).toBe(null)
  expect(counter(cluster, 'p0', 'ticketsRegistered')).toBe(0)
})

test('RT-45: a load that is given up again and again drains before its blocks come free', async () => {
  const cluster = await open()
  const journey = serve(cluster)
  await untilWriting(cluster)
  const { name } = agentOf(cluster, 'd0')
  cluster.world.fabric.faults.stall(name)
  const consumer = cluster.engine('d0')
  consumer.abort(journey.consumer!.id)
  await cluster.world.clock.advance(3_000)
  expect(consumer.heldBlockCount).toBeGreaterThan(0)
  expect(cluster.engine('p0').heldBlockCount).toBeGreaterThan(0)
  cluster.world.fabric.faults.unstall(name)
  await settle(cluster)
})

test('RT-53: the producer closes with a read under way and tickets open: nothing is left', async () => {
  const cluster = await open({ engines: { options: shortLives } })
  await untilServed(cluster, serve(cluster, { id: 'first', prompt: 9 }))
  await handoff(cluster, { id: 'unclaimed', prompt: 7 })
  const journey = serve(cluster)
  await untilWriting(cluster)
  const { host } = cluster.engine('p0')
  await cluster.world.clock.wait(host.shutdown(), 60_000)
  const { leasesOpen, ticketsRegistered, ticketsFinished } =
    host.ranks[0]!.worker.getStats()?.counters ?? {}
  expect(leasesOpen ?? 0).toBe(0)
  expect(ticketsFinished).toBe(ticketsRegistered)
  await untilServed(cluster, journey)
  // Closing waited for the WRITE that was posted.
  expect(journey.consumer!.loadError).toBe(null)
})

test('the bytes of a prompt cross once: P writes what is missing, and nothing else', async () => {
  const cluster = await open()
  const journey = serve(cluster)
  await untilServed(cluster, journey)
  const { caches } = cluster.engine('p0').host.ranks[0]!
  const blockBytes = caches.regions.reduce((sum, region) => sum + region.blockSizeBytes, 0)
  const { bytesMoved, transfersPosted } = agentOf(cluster, 'p0').counters()
  expect(transfersPosted).toBe(1)
  expect(bytesMoved).toBe(Math.ceil(30 / caches.blockTokens) * blockBytes)
  await settle(cluster)
})

test('the news is lost and the ticket gone: the consumer asks, and is told that all was written', async () => {
  const cluster = await open({ engines: { options: shortLives } })
  await untilServed(cluster, serve(cluster, { id: 'first', prompt: 9 }))
  const journey = serve(cluster)
  await untilWriting(cluster)
  cluster.world.fabric.faults.notifications.lossChance = 1
  cluster.world.channels.faults.breakAssociations('p0' as never, 'd0' as never)
  await until(cluster, () => journey.outcome !== 'open')
  expect(journey.consumer!.loadError).toBe(null)
  await settle(cluster)
})

test('a consumer that dies after its claim, before the ticket is registered: blocks are free as if nobody had claimed it', async () => {
  const world = createWorld({ factory: xavier })
  const [p, d] = [
    await Engine.start(world, { engineId: 'p0', options: shortLives }),
    await Engine.start(world, { engineId: 'd0', options: shortLives }),
  ]
  const request = p.admit('r1', 30, { do_remote_decode: true, do_remote_prefill: false })
  p.step()
  await p.fill(request, 1)
  request.view = { ...request.view, computedTokenCount: 30 }
  // The step that registers the ticket is late.
  p.isHalted = true
  const params = p.finish('r1', 'length-capped')
  d.arrive('d-r1', 30, params)
  d.step()
  await untilIn(world, () => {
    d.step()
    return d.counter('heartbeatsDone') > 0
  })
  d.kill()
  await world.clock.advance(100)
  p.isHalted = false
  p.step()
  await world.clock.advance(shortLives.unclaimedTicketMs - 10)
  expect(p.free.length).toBeLessThan(64)
  await world.clock.advance(50)
  expect(p.free.length).toBe(64)
  expect(p.counter('leasesExpired')).toBe(1)
})
