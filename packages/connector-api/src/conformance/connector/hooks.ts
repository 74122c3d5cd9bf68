/** C3: the hooks themselves, where an engine may call them in ways that the straight path does not show. */
import type { KvTransferParams } from '../../connector.ts'
import { asRequestId } from '../../ids.ts'
import { assert } from '../agent/expect.ts'
import type { ConnectorGroupRuns } from './clause-run.ts'
import type { ConnectorContext } from './context.ts'
import { wrapFactory } from './delegate.ts'
import { malformedParams } from './malformed-params.ts'
import { WireTap } from './wire-tap.ts'

/** Serves a few jobs with a connector whose halves are looked over the shoulder. */
async function serveWith(
  context: ConnectorContext,
  wraps: Parameters<typeof wrapFactory>[1],
): Promise<void> {
  const factory = wrapFactory(context.target.factory, wraps)
  const cluster = await context.openSlow({ factory })
  const journeys = [5, 30, 17, 30].map((promptTokenCount) =>
    context.serve(cluster, { promptTokenCount }),
  )
  await context.settle(cluster)
  for (const journey of journeys) context.assertLoaded(journey)
}

export const hooks: ConnectorGroupRuns<'C3'> = {
  async 'C3.1'(context) {
    const tap = new WireTap()
    const cluster = await context.open({ engine: { d0: tap.options } })
    const { handoff, producer } = await context.handoff(cluster)
    const engine = cluster.engine('d0')
    const { scheduler, ranks } = engine.host
    const request = {
      requestId: asRequestId('probed'),
      promptTokenCount: 30,
      promptDigest: producer!.promptDigest,
      computedTokenCount: 0,
      kvTransferParams: handoff,
      finishReason: null,
    }
    scheduler.onNewRequest(request)
    const first = scheduler.getNumNewMatchedTokens(request, 0)
    engine.requestStep()
    await cluster.world.clock.advance(100)
    const heardBefore = tap.messages.length
    for (let count = 0; count < 50; count += 1) {
      const again = scheduler.getNumNewMatchedTokens(request, 0)
      assert.deepEqual(again, first)
    }
    engine.requestStep()
    await cluster.world.clock.advance(100)
    assert.equal(tap.messages.length, heardBefore, 'questions were answered by sending something')
    assert.equal(ranks[0]!.agent.counters().transfersPosted, 0)
    const ended = { ...request, finishReason: 'aborted' } as const
    const { delayFree } = scheduler.requestFinished(ended, [new Uint32Array()])
    assert.equal(delayFree, false, 'there are no blocks to keep')
    await context.settle(cluster, context.target.releaseBoundMs)
  },
  async 'C3.2'(context) {
    await serveWith(context, {
      scheduler: (scheduler) => {
        // Before anything happened, there is nothing to tell.
        const noStep = { stepIndex: 0, scheduled: [], preemptedRequestIds: [] }
        const emptySize = scheduler.buildConnectorMeta(noStep).length
        return {
          buildConnectorMeta(step) {
            const meta = scheduler.buildConnectorMeta(step)
            const again = scheduler.buildConnectorMeta(step)
            assert.ok(again.length <= emptySize, 'the same is told twice')
            return meta
          },
        }
      },
    })
  },
  async 'C3.3'(context) {
    const cluster = await context.open({ engine: { d0: { blockCount: 20 } } })
    const journeys = [20, 22, 24].map((promptTokenCount) =>
      context.serve(cluster, { promptTokenCount, outputTokenCount: 20 }),
    )
    await context.settle(cluster)
    const { transcript } = cluster.auditor
    const count = (text: string): number => transcript.filter((line) => line.includes(text)).length
    assert.ok(count('is preempted') > 0, 'nothing was preempted')
    for (const { consumer, outcome } of journeys) {
      assert.equal(outcome, 'done')
      assert.equal(count(`${consumer!.id} is loaded`), 1, `${consumer!.id} was loaded once`)
    }
  },
  async 'C3.4'(context) {
    await serveWith(context, {
      worker: (worker) => ({
        getTransferResults(finished) {
          const output = worker.getTransferResults(finished)
          const { sent, received, failed } = worker.getTransferResults(new Set())
          assert.deepEqual([...sent, ...received, ...failed], [], 'reported twice')
          return output
        },
      }),
    })
  },
  async 'C3.5'(context) {
    const cluster = await context.open()
    const journey = await context.handoff(cluster)
    const genuine = journey.handoff!
    const { scheduler } = cluster.engine('d0').host
    let refusedCount = 0
    const match = (params: KvTransferParams, name: string): number => {
      const request = {
        requestId: asRequestId(name),
        promptTokenCount: 30,
        promptDigest: journey.producer!.promptDigest,
        computedTokenCount: 0,
        kvTransferParams: params,
        finishReason: null,
      }
      scheduler.onNewRequest(request)
      const { tokens, isAsync } = scheduler.getNumNewMatchedTokens(request, 0)
      assert.equal(isAsync, tokens !== null && tokens > 0, `${name}: isAsync must mean tokens`)
      scheduler.requestFinished({ ...request, finishReason: 'aborted' }, [new Uint32Array()])
      return tokens ?? 0
    }
    for (const { name, params } of malformedParams(genuine)) {
      const tokens = match(params, name)
      assert.ok(tokens === 0 || tokens === 30, `${name}: ${tokens} tokens matched`)
      if (tokens === 0) refusedCount += 1
    }
    assert.ok(refusedCount > Object.keys(genuine).length, 'nearly everything is accepted')
    // What is refused is served all the same.
    const served = context.consume(cluster, { ...genuine, do_remote_prefill: 'yes' })
    await context.settle(cluster, context.target.releaseBoundMs)
    context.assertNotLoaded(served)
  },
  async 'C3.6'(context) {
    const cluster = await context.open()
    const nobody = [asRequestId('nobody')]
    for (const { host } of cluster.lives) {
      host.scheduler.updateConnectorOutput({ sent: nobody, received: nobody, failed: [] })
    }
    await context.serveWell(cluster)
    await context.settle(cluster)
  },
}
