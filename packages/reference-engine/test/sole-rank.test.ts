import type { ConnectorWorker, ReadyFence, TransferAgent } from '@kvferry/connector-api'
import { expect, test } from 'vitest'
import { SoleRank } from '../src/core/sole-rank.ts'

test('what the one rank answers is passed on as it is: nothing is gathered, summed or awaited', () => {
  const calls: unknown[][] = []
  const note =
    (name: string, answer?: unknown) =>
    (...given: unknown[]) => {
      calls.push([name, ...given])
      return answer
    }
  const settled = Promise.resolve()
  const output = { sent: [], received: [], failed: [] }
  const stats = { loads: [], counters: { done: 1 } }
  const [meta, fence, ended] = [new Uint8Array(1), 7 as unknown as ReadyFence, new Set<never>()]
  const rank = new SoleRank({
    worker: {
      handlePreemptions: note('preempt', settled),
      bindConnectorMetadata: note('bind'),
      waitForSave: note('save'),
      getTransferResults: note('results', output),
      getStats: note('stats', stats),
    } as unknown as ConnectorWorker,
    agent: { createFence: () => fence, signalFence: note('signal') } as unknown as TransferAgent,
  })
  expect(rank.handlePreemptions(meta)).toBe(settled)
  rank.bindConnectorMetadata(meta)
  const fences = rank.createFences()
  rank.waitForSave(fences)
  rank.waitForSave(null)
  rank.signalFences(fences, 3)
  expect(rank.getTransferResults(ended)).toBe(output)
  expect(rank.getStats()).toBe(stats)
  expect(calls).toEqual([
    ['preempt', meta],
    ['bind', meta],
    ['save', fence],
    ['save', null],
    ['signal', fence, { inMs: 3 }],
    ['results', ended],
    ['stats'],
  ])
})
