import { describe, expect, test } from 'vitest'
import { asRequestId, ConnectorError, type AnyConnectorError } from '../src/index.ts'
import { Cluster, type ClusterEngineOptions } from '../src/testing/index.ts'
import { BlockPool } from '../src/testing/cluster/block-pool.ts'
import { RankAggregator } from '../src/testing/cluster/rank-aggregator.ts'
import { createToyConnector, type ToyHooks } from './toy-connector.ts'

const open = (hooks: ToyHooks = {}, engines: ClusterEngineOptions = {}): Promise<Cluster> =>
  Cluster.open({ factory: createToyConnector(hooks), engines })

/** One request on `d0` alone. */
function submit(cluster: Cluster, id = 'r', promptTokenCount = 10, outputTokenCount = 3) {
  const init = { id, prompt: 1, promptTokenCount, outputTokenCount, params: null }
  return cluster.engine('d0').submit(init)
}

const rulesOf = ({ auditor }: Cluster): string[] => auditor.violations.map(({ rule }) => rule)

describe('a connector that is no help', () => {
  test('is no harm: prompts longer than a step are computed in chunks', async () => {
    const cluster = await open({}, { stepTokenCountMax: 4 })
    const request = submit(cluster)
    await cluster.settle(1_000)
    expect(request.finishReason).toBe('length-capped')
    cluster.auditor.assertClean()
  })

  test('requests that outgrow the pool are preempted, and end', async () => {
    const cluster = await open({}, { blockCount: 6 })
    const requests = ['a', 'b', 'c'].map((id) => submit(cluster, id, 7, 9))
    await cluster.settle(5_000)
    expect(requests.map(({ finishReason }) => finishReason)).toEqual(Array(3).fill('length-capped'))
    cluster.auditor.assertClean()
  })

  test('a prefix that is cached is not computed again', async () => {
    const cluster = await open({}, { freeMode: 'cached' })
    submit(cluster, 'a', 10)
    await cluster.settle(1_000)
    const again = submit(cluster, 'b', 10)
    await cluster.settle(1_000)
    expect(again.hitTokenCount).toBe(8)
    cluster.auditor.assertClean()
  })

  test('hears of each block once: at admission, or in the step that needs it', async () => {
    let named: number[] = []
    let finished: number[] = []
    const computed: number[] = []
    const scheduler: ToyHooks['scheduler'] = {
      updateStateAfterAlloc: (_request, [blocks]) => void (named = [...(blocks ?? [])]),
      buildConnectorMeta({ scheduled }) {
        for (const part of scheduled) {
          named.push(...(part.newBlockIds[0] ?? []))
          computed.push(part.computedTokenCountAfter)
        }
        return new Uint8Array()
      },
      requestFinished(_request, [blocks]) {
        finished = [...(blocks ?? [])]
        return { delayFree: false, kvTransferParams: null }
      },
    }
    const cluster = await open({ scheduler }, { stepTokenCountMax: 4 })
    submit(cluster, 'r', 10, 8)
    await cluster.settle(1_000)
    expect(finished.length).toBeGreaterThan(3)
    expect(named).toEqual(finished)
    expect(computed.slice(0, 4)).toEqual([4, 8, 10, 11])
  })

  test('aborted in its own step, a request is freed once', async () => {
    const cluster = await open()
    const request = submit(cluster, 'a', 40, 50)
    await cluster.world.clock.advance(5)
    cluster.engine('d0').abort('a')
    await cluster.settle(1_000)
    expect(request.finishReason).toBe('aborted')
    cluster.auditor.assertClean()
  })
})

describe('a connector that lies', () => {
  const match = { getNumNewMatchedTokens: () => ({ tokens: 10, isAsync: true }) }
  const report = (output: object) => ({
    getTransferResults: () => ({ sent: [], received: [], failed: [], ...output }),
  })
  const once = (output: object) => {
    let isTold = false
    return () => ({
      getTransferResults() {
        const told = isTold
        isTold = true
        return { sent: [], received: [], failed: [], ...(told ? {} : output) }
      },
    })
  }
  const r = asRequestId('r')

  test('about bytes breaks S2', async () => {
    const cluster = await open({ scheduler: match, worker: once({ received: [r] }) })
    submit(cluster)
    await cluster.settle(1_000)
    expect(rulesOf(cluster)).toEqual(['S2', 'S2'])
  })

  test('about ids breaks "once"', async () => {
    const cluster = await open({ worker: () => report({ sent: [asRequestId('x')] }) })
    submit(cluster, 'a', 3, 1)
    await cluster.settle(1_000)
    expect(new Set(rulesOf(cluster))).toEqual(new Set(['once']))
  })

  test('by saying nothing breaks V1', async () => {
    const cluster = await open({ scheduler: match })
    submit(cluster)
    await cluster.settle(1_000)
    expect(rulesOf(cluster)).toEqual(['V1', 'S3'])
  })

  test('by keeping blocks breaks V2', async () => {
    const requestFinished = () => ({ delayFree: true, kvTransferParams: null })
    const cluster = await open({ scheduler: { requestFinished } })
    submit(cluster)
    await cluster.settle(1_000)
    expect(rulesOf(cluster)).toEqual(['V2', 'S3'])
  })

  test('by answering a question differently the second time breaks S6', async () => {
    let tokens = 0
    const getNumNewMatchedTokens = () => ({ tokens: tokens++ % 2, isAsync: tokens % 2 === 0 })
    const cluster = await open({ scheduler: { getNumNewMatchedTokens } })
    submit(cluster)
    await cluster.settle(1_000)
    expect(rulesOf(cluster)).toEqual(['S6'])
  })

  test('by throwing out of a hook is told so', async () => {
    const onNewRequest = () => {
      throw new Error('no')
    }
    const cluster = await open({ scheduler: { onNewRequest } })
    submit(cluster)
    expect(rulesOf(cluster)).toEqual(['hook'])
  })

  test('a failed load is computed again from its first invalid block', async () => {
    const error = new ConnectorError('ERR_KV_LEASE_EXPIRED', 'late', { requestId: r })
    const failed = [
      { requestId: r, blockIds: [Uint32Array.of(63)], error: error as AnyConnectorError },
    ]
    const cluster = await open({ scheduler: match, worker: once({ received: [r], failed }) })
    const request = submit(cluster)
    await cluster.settle(1_000)
    // Poisoned pools give out from both ends, the last block first.
    cluster.auditor.assertClean()
    expect(request).toMatchObject({
      finishReason: 'length-capped',
      loadError: 'ERR_KV_LEASE_EXPIRED',
    })
  })
})

test('a block has its owners, and comes free with the last of them', () => {
  const freed: number[] = []
  const onFree = (block: number): void => void freed.push(block)
  const pool = new BlockPool({ blockCount: 4, mode: 'cached', onFree })
  const [block] = pool.take(1, 'a')
  pool.cache(7, 0, block!)
  expect(pool.lookup(7, 3)).toEqual([block])
  pool.share([block!], 'b')
  pool.release([block!], 'a')
  expect(freed).toEqual([])
  expect(() => pool.release([block!], 'a')).toThrow('twice')
  pool.release([block!], 'b')
  expect(freed).toEqual([block])
  expect(pool.audit()).toBe(null)
  // It is given out last, and its content is forgotten then.
  expect(pool.take(4, 'c')).toContain(block)
  expect(pool.lookup(7, 3)).toEqual([])
})

test('an id counts when every rank has reported it, and a rank reports once', () => {
  const aggregator = new RankAggregator(2)
  const none = { sent: [], received: [], failed: [] }
  const r = asRequestId('r')
  expect(aggregator.add([{ ...none, sent: [r] }, none]).sent).toEqual([])
  expect(() => aggregator.add([{ ...none, sent: [r] }, none])).toThrow('twice')
  expect(aggregator.add([none, { ...none, sent: [r] }]).sent).toEqual([r])
})
