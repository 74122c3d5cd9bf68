/** C11: what the manifest promises, and the refusal of what it does not. */
import { asRequestId } from '../../ids.ts'
import { digestTokens } from '../../prompt-digest.ts'
import type { ClusterEngineOptions } from '../../testing/cluster/cluster.ts'
import { assert, assertRefused } from '../agent/expect.ts'
import type { ConnectorGroupRuns } from './clause-run.ts'
import type { ConnectorContext } from './context.ts'
import { tensorParallel } from './tensor-parallel.ts'

/** Of one model, which could be shared out over two ranks, and whose blocks have an order. */
const fourHeads = { kvHeadCount: 4 }

/** Engines that differ in this alone serve, but not from each other's bytes. */
async function refuseEachOther(context: ConnectorContext, d0: ClusterEngineOptions): Promise<void> {
  const cluster = await context.open({ engines: fourHeads, engine: { d0 } })
  const journey = context.serve(cluster)
  await context.settle(cluster, context.target.releaseBoundMs)
  context.assertNotLoaded(journey)
}

/** Of producer and consumer: equal, and either the larger. */
const blockPairs = [
  [4, 4],
  [4, 8],
  [8, 4],
] as const
const rankPairs = [
  [1, 1],
  [2, 1],
  [1, 2],
] as const

export const capabilities: ConnectorGroupRuns<'C11'> = {
  ...tensorParallel,
  async 'C11.1'(context) {
    await assertRefused('two ranks', 'ERR_KV_UNSUPPORTED', () =>
      context.open({ engine: { p0: { tpSize: 2 } } }),
    )
  },
  async 'C11.2'(context) {
    const cluster = await context.openSlow({ engines: { tpSize: 2 } })
    const journeys = [1, 17, 40].map((promptTokenCount) =>
      context.serve(cluster, { promptTokenCount }),
    )
    await context.settle(cluster)
    for (const journey of journeys) context.assertLoaded(journey)
  },
  async 'C11.3'(context) {
    await refuseEachOther(context, { tpSize: 2 })
  },
  async 'C11.4'(context) {
    await refuseEachOther(context, { blockTokens: 8 })
  },
  async 'C11.5'(context) {
    for (const [p, d] of [
      [4, 8],
      [8, 4],
      [4, 16],
      [16, 4],
    ]) {
      const engine = { p0: { blockTokens: p! }, d0: { blockTokens: d! } }
      const cluster = await context.openSlow({ engine, engines: { freeMode: 'cached' } })
      for (const promptTokenCount of [1, 7, 8, 9, 31, 40]) {
        await context.serveWell(cluster, { promptTokenCount })
      }
      // Beyond a local hit, which ends at a block of the consumer's.
      await context.serveWell(cluster, { prompt: 99, promptTokenCount: 17 })
      await context.serveWell(cluster, { prompt: 99, promptTokenCount: 45 })
      await context.settle(cluster)
    }
  },
  async 'C11.19'(context) {
    await refuseEachOther(context, { layout: 'LBNHC' })
  },
  async 'C11.20'(context) {
    const { supportsDifferentBlockSizes, tensorParallel: tp } = context.capabilities
    const blocks = supportsDifferentBlockSizes ? blockPairs : [[4, 4] as const]
    const ranks = tp === 'mapped' ? rankPairs : [[1, 1] as const]
    for (const [from, to] of [
      ['LBHNC', 'LBNHC'],
      ['LBNHC', 'LBHNC'],
    ]) {
      for (const [pBlock, dBlock] of blocks) {
        for (const [p, d] of ranks) {
          const cluster = await context.openSlow({
            engines: { kvHeadCount: 4, freeMode: 'cached' },
            engine: {
              p0: { layout: from!, blockTokens: pBlock, tpSize: p },
              d0: { layout: to!, blockTokens: dBlock, tpSize: d },
            },
          })
          await context.serveWell(cluster, { promptTokenCount: 9 })
          // Beyond a local hit, which ends at a block of the consumer's.
          await context.serveWell(cluster, { prompt: 99, promptTokenCount: 17 })
          await context.serveWell(cluster, { prompt: 99, promptTokenCount: 45 })
          await context.settle(cluster)
        }
      }
    }
  },
  async 'C11.6'(context) {
    const cluster = await context.open()
    const journey = await context.serveWell(cluster)
    assert.equal(journey.consumer!.returnedParams, null)
    assert.equal(journey.consumer!.awaited.size, 0)
    await context.settle(cluster)
  },
  async 'C11.7'(context) {
    const cluster = await context.open({ engines: { options: context.target.nextTurnOptions } })
    const first = await context.serveWell(cluster, { prompt: 1, promptTokenCount: 20 })
    const kept = first.consumer!.returnedParams
    assert.ok(kept !== null, 'the consumer keeps nothing')
    const next = context.serve(cluster, {
      prompt: 1,
      promptTokenCount: 37,
      producerParams: JSON.parse(JSON.stringify(kept)) as Record<string, unknown>,
    })
    await context.until(cluster, () => next.outcome !== 'open')
    context.assertLoaded(next)
    assert.ok(next.producer!.externalTokenCount >= 16, 'the producer computed the last turn again')
    // Blocks that nobody comes back for are kept for much longer than a lease.
    await cluster.settle(Number.MAX_SAFE_INTEGER)
    cluster.auditor.assertClean()
  },
  async 'C11.8'(context) {
    const cluster = await context.openSlow({ consumerCount: 2 })
    const journey = await context.handoff(cluster)
    const again = ['d0', 'd0', 'd1'].map((consumer, index) =>
      cluster.router.repeat(journey, consumer, `again-${index}`),
    )
    await context.settle(cluster)
    for (const { outcome } of again) assert.equal(outcome, 'done')
  },
  async 'C11.9'(context) {
    const cluster = await context.openSlow()
    const journey = await context.handoff(cluster)
    const again = [0, 1].map((index) => cluster.router.repeat(journey, 'd0', `again-${index}`))
    await context.settle(cluster)
    for (const one of again) context.assertLoaded(one)
  },
  async 'C11.10'(context) {
    const cluster = await context.open({ engines: { stepTokenCountMax: 8 } })
    const journey = context.serve(cluster, { promptTokenCount: 60 })
    const { caches } = cluster.engine('p0').host.ranks[0]!
    const { memory } = caches.regions[0]!
    const range = { memory, offsetBytes: 0, lengthBytes: memory.sizeBytes }
    await context.until(cluster, () => {
      const isPrefilling = journey.producer!.status !== 'ended'
      const touching = cluster.world.fabric.touching(range)
      if (isPrefilling) assert.deepEqual(touching, [], 'its blocks are touched already')
      return !isPrefilling
    })
    await context.settle(cluster)
  },
  async 'C11.11'(context) {
    const cluster = await context.open()
    const early = await context.serveWell(cluster)
    assert.equal(early.outcome, 'done')
    // Somebody else's prompt is in the way of this one's prefill.
    const engine = cluster.engine('p0')
    engine.submit({
      id: 'long',
      prompt: 50,
      promptTokenCount: 200,
      outputTokenCount: 9,
      params: null,
    })
    const journey = context.serve(cluster, { hopMs: 0 })
    await context.settle(cluster)
    context.assertLoaded(journey)
  },
  async 'C11.21'(context) {
    const stepMs = 50
    const cluster = await context.open({ engine: { p0: { stepMs, stepTokenCountMax: 16 } } })
    const journey = context.serve(cluster)
    const computed = (): number => journey.producer!.computedTokenCount
    // The consumer comes during the first of two steps.
    await context.until(cluster, () => computed() === 16)
    await cluster.world.clock.advance(stepMs / 2)
    assert.equal(computed(), 16, 'the second step has ended already')
    assert.ok(context.openTransfers(cluster) > 0, 'no transfer waits for the forward’s end')
    await context.settle(cluster)
    context.assertLoaded(journey)
  },
  async 'C11.12'(context) {
    const cluster = await context.open()
    const { scheduler } = cluster.engine('p0').host
    const request = {
      requestId: asRequestId('grouped'),
      promptTokenCount: 4,
      promptDigest: digestTokens([1, 2, 3, 4]),
      computedTokenCount: 4,
      kvTransferParams: { do_remote_decode: true, do_remote_prefill: false },
      finishReason: 'length-capped',
    } as const
    const groups = [Uint32Array.of(1), Uint32Array.of(2)]
    scheduler.onNewRequest({ ...request, finishReason: null })
    scheduler.getNumNewMatchedTokens({ ...request, finishReason: null }, 0)
    scheduler.updateStateAfterAlloc({ ...request, finishReason: null }, groups, 0)
    const { delayFree, kvTransferParams } = scheduler.requestFinished(request, groups)
    assert.equal(delayFree, false)
    assert.equal(kvTransferParams, null)
    await context.settle(cluster)
  },
  async 'C11.13'(context) {
    const engines = { config: { bufferDevice: 'host' } } as const
    if (context.capabilities.stagesInHostMemory !== true) {
      await assertRefused('host staging', 'ERR_KV_UNSUPPORTED', () => context.open({ engines }))
      return
    }
    const cluster = await context.open({ engines })
    await context.serveWell(cluster)
    await context.settle(cluster)
  },
}
