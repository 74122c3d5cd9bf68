/** C9: at each limit, and one past it. */
import { ConnectorError } from '../../errors.ts'
import { asRequestId } from '../../ids.ts'
import { limits } from '../../limits.ts'
import type { TransferAgent } from '../../transfer-agent.ts'
import { assert } from '../agent/expect.ts'
import type { ConnectorGroupRuns } from './clause-run.ts'

export const bounds: ConnectorGroupRuns<'C9'> = {
  async 'C9.1'(context) {
    const cluster = await context.open()
    const { handoff, job, producer } = await context.handoff(cluster)
    const { scheduler } = cluster.engine('d0').host
    const requestOf = (index: number) => ({
      requestId: asRequestId(`many-${index}`),
      promptTokenCount: job.promptTokenCount,
      promptDigest: producer!.promptDigest,
      computedTokenCount: 0,
      kvTransferParams: handoff,
      finishReason: null,
    })
    const arrive = (index: number): number | null => {
      const request = requestOf(index)
      scheduler.onNewRequest(request)
      return scheduler.getNumNewMatchedTokens(request, 0).tokens
    }
    const end = (index: number): void => {
      const ended = { ...requestOf(index), finishReason: 'aborted' } as const
      scheduler.requestFinished(ended, [new Uint32Array()])
    }
    for (let index = 0; index < limits.requestCountMax; index += 1) {
      assert.notEqual(arrive(index), 0, `request ${index} of ${limits.requestCountMax} is refused`)
    }
    assert.equal(arrive(limits.requestCountMax), 0, 'one past the limit is accepted')
    end(limits.requestCountMax)
    end(0)
    assert.notEqual(arrive(-1), 0, 'room that came free is not used')
    end(-1)
    for (let index = 1; index < limits.requestCountMax; index += 1) end(index)
    await context.settle(cluster)
  },
  async 'C9.2'(context) {
    const cluster = await context.open()
    const { handoff } = await context.handoff(cluster)
    const submit = (id: string, params: Record<string, unknown> | null) =>
      cluster.engine('d0').submit({
        id,
        prompt: 1,
        promptTokenCount: 30,
        outputTokenCount: 1,
        params,
      })
    const long = 'x'.repeat(limits.idSizeBytesMax + 1)
    const consumer = submit(long, handoff)
    const producer = submit(`${long}y`, { do_remote_decode: true, do_remote_prefill: false })
    await context.settle(cluster, context.target.releaseBoundMs)
    for (const request of [consumer, producer]) {
      assert.equal(request.finishReason, 'length-capped')
      assert.equal(request.externalTokenCount, 0)
      assert.equal(request.returnedParams, null)
    }
  },
  async 'C9.3'(context) {
    const engine = { p0: { blockCount: 16 }, d0: { blockCount: 14 } }
    const cluster = await context.openSlow({ engine })
    for (let index = 0; index < 40; index += 1) {
      context.serve(cluster, { promptTokenCount: 1 + ((index * 11) % 40) })
    }
    // Engines that wait for each other's room get out of it one after the other.
    await context.settle(cluster, 10 * context.target.outcomeBoundMs)
    for (const { outcome } of cluster.router.journeys) assert.equal(outcome, 'done')
    for (const { host } of cluster.lives) {
      const meta = host.buildMeta([], [])
      assert.deepEqual(host.buildMeta([], []), meta, 'there is still something to tell')
    }
  },
  async 'C9.4'(context) {
    let refusedCount = 0
    const wrapAgent = (agent: TransferAgent) => ({
      ...agent,
      post: (...post: Parameters<typeof agent.post>) => {
        if (refusedCount < 2) {
          refusedCount += 1
          const details = { limit: 'transfersInFlightMax', value: 1, max: 0 }
          throw new ConnectorError('ERR_KV_LIMIT', 'the queue is full', details)
        }
        return agent.post(...post)
      },
    })
    const cluster = await context.open({ engines: { wrapAgent } })
    const journeys = Array.from({ length: 5 }, () => context.serve(cluster))
    await context.settle(cluster)
    const errors = journeys.map(({ consumer }) => consumer!.loadError)
    assert.deepEqual(new Set(journeys.map(({ outcome }) => outcome)), new Set(['done']))
    assert.ok(errors.includes(null), 'one full queue failed every load')
    for (const error of errors) assert.ok(error === null || error === 'ERR_KV_LIMIT', `${error}`)
  },
}
