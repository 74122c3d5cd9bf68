/** Prompts that come back to whole engines, under the names of Xavier's requirements (decision 12). */
import type { KvHistory, WorkerOutput } from '@kvferry/connector-api'
import {
  createWorld,
  type Cluster,
  type ClusterEngineOptions,
} from '@kvferry/connector-api/testing'
import { expect, test } from 'vitest'
import { xavier } from '../../src/index.ts'
import { historyOf, keeping, kept, keepingEngines } from '../fixtures/kept.ts'
import { handoff, open, serve, settle, until, untilServed } from '../fixtures/story.ts'

/** 30 tokens in blocks of four: the 29 that are kept are in eight blocks, the last of them partly filled. */
const blockCount = 8

/** It has been served, and is in the history. */
async function served(cluster: Cluster, id = 'first', prompt = 1): Promise<void> {
  await untilServed(cluster, serve(cluster, { id, prompt }))
  await settle(cluster)
}

test('RT-30: each prompt that comes back is restored, right to the byte, and only its rest is computed', async () => {
  const cluster = await open({ engines: keepingEngines() })
  for (const turn of [0, 1, 2]) {
    const journey = serve(cluster, { id: `r${turn}` })
    await untilServed(cluster, journey)
    expect(journey.outcome).toBe('done')
    expect(journey.producer!.externalTokenCount).toBe(turn === 0 ? 0 : 29)
    await settle(cluster)
    expect(kept(cluster, 'historyHitBlocks')).toBe(blockCount * turn)
    expect(kept(cluster, 'historyLoadedRequests')).toBe(turn)
  }
  expect(kept(cluster, 'historySavedBlocks')).toBe(blockCount)
  // A handoff's end and a restore's are counted apart (RT-52).
  expect(kept(cluster, 'loadsDone')).toBe(0)
  expect(kept(cluster, 'ticketsFinished')).toBe(3)
})

test('what reached nobody is kept: the client that tries again finds it', async () => {
  const cluster = await open({ engines: keepingEngines() })
  const lost = await handoff(cluster)
  cluster.engine('p0').abort(lost.producer!.id)
  await until(cluster, () => cluster.engine('p0').heldBlockCount === 0, 1_000)
  const again = serve(cluster, { id: 'again' })
  await untilServed(cluster, again)
  expect(again.producer!.externalTokenCount).toBe(29)
  expect(again.consumer!.loadError).toBe(null)
  await settle(cluster)
})

test('a prompt that was never offered is answered at once; one that may be there waits for the answer', async () => {
  const cluster = await open({ engines: keepingEngines() })
  await served(cluster)
  const producer = cluster.engine('p0')
  const asked: (number | null)[] = []
  const { scheduler } = producer.host
  const match = scheduler.getNumNewMatchedTokens.bind(scheduler)
  scheduler.getNumNewMatchedTokens = (request, computed) => {
    const answer = match(request, computed)
    asked.push(answer.tokens)
    return answer
  }
  await served(cluster, 'cold', 2)
  expect(asked).toEqual([0, 0])
  asked.length = 0
  await served(cluster, 'warm', 1)
  // Each attempt asks twice, and is told the same.
  expect(asked).toEqual([null, null, 29, 29])
})

test('RT-47: what lacks less than a block asks nothing, and nothing is reserved', async () => {
  const engines = { ...keepingEngines(), freeMode: 'cached' } as const
  const cluster = await open({ engines })
  await served(cluster)
  await served(cluster, 'again')
  const { producer } = cluster.router.journeys[1]!
  expect([producer!.hitTokenCount, producer!.externalTokenCount]).toEqual([28, 0])
  expect(kept(cluster, 'historyHitBlocks')).toBe(0)
  expect(answersOf(cluster)).toEqual([])
})

test('a local hit before the history’s: only the rest is restored, into the blocks after it', async () => {
  const cluster = await open({ engines: { ...keepingEngines(), freeMode: 'cached' } })
  await served(cluster)
  // The producer's own cache keeps the prompt's beginning and loses its end.
  const { pool } = cluster.engine('p0')
  const lookup = pool.lookup.bind(pool)
  pool.lookup = (prompt, countMax) => lookup(prompt, Math.min(3, countMax))
  const journey = serve(cluster, { id: 'again' })
  await untilServed(cluster, journey)
  expect(journey.producer).toMatchObject({ hitTokenCount: 12, externalTokenCount: 17 })
  expect(kept(cluster, 'historyHitBlocks')).toBe(blockCount - 3)
  await settle(cluster)
})

/** Another request has all of the producer's room for a while. */
const fullRoom = {
  id: 'p0/local',
  prompt: 9,
  promptTokenCount: 30,
  outputTokenCount: 12,
  params: null,
}
const tightProducer = { p0: { blockCount: 14, stepMs: 400 } }

async function waiting(cluster: Cluster, id: string) {
  cluster.engine('p0').submit({ ...fullRoom, id: `p0/local-${id}` })
  const journey = serve(cluster, { id })
  await until(cluster, () => answersOf(cluster).length > 0)
  expect(journey.producer!.status).toBe('waiting')
  return journey
}

test('H5: given up before it had room, its reservation is given back', async () => {
  const cluster = await open({ engines: keepingEngines(), engine: tightProducer })
  await served(cluster)
  const journey = await waiting(cluster, 'again')
  expect(kept(cluster, 'historyLeasesOpen')).toBe(1)
  cluster.engine('p0').abort(journey.producer!.id)
  await until(cluster, () => kept(cluster, 'historyLeasesOpen') === 0, 2_000)
  await settle(cluster)
})

test('RT-45, H6: given up while it is restored, its blocks come back when the copies have ended', async () => {
  const cluster = await open({ engines: keepingEngines(50) })
  await served(cluster)
  const journey = serve(cluster, { id: 'again' })
  await until(cluster, () => journey.producer?.status === 'loading')
  const producer = cluster.engine('p0')
  producer.abort(journey.producer!.id)
  expect(journey.producer!.awaited).toEqual(new Set(['received']))
  await settle(cluster)
  expect(kept(cluster, 'historyLeasesOpen')).toBe(0)
})

/** Producers whose history is changed as it is opened. */
const changed = (change: (history: KvHistory) => void): ClusterEngineOptions => ({
  ...keepingEngines(),
  history: (world) => ({
    open(options) {
      const history = historyOf(1)(world).open(options)
      change(history)
      return history
    },
  }),
})

test('K2, RT-44: a reservation that has gone before its restore is computed, and nobody fails', async () => {
  const engines = changed((history) => {
    const reserve = history.reserve.bind(history)
    history.reserve = (...args) => {
      const found = reserve(...args)
      if (found !== null) history.release(found.lease)
      return found
    }
  })
  const cluster = await open({ engines })
  await served(cluster)
  const journey = serve(cluster, { id: 'again' })
  await untilServed(cluster, journey)
  expect(journey).toMatchObject({
    ...{ outcome: 'done', producer: { loadError: 'ERR_KV_LEASE_EXPIRED' } },
  })
  expect(kept(cluster, 'historyHitBlocks')).toBe(0)
  await settle(cluster)
})

test('RT-35: a restore that can’t be started gives its reservation back, and is computed', async () => {
  const engines = changed((history) => {
    history.restore = () => Promise.reject(new RangeError('no such blocks'))
  })
  const cluster = await open({ engines })
  await served(cluster)
  const journey = serve(cluster, { id: 'again' })
  await untilServed(cluster, journey)
  expect(journey).toMatchObject({
    ...{ outcome: 'done', producer: { loadError: 'ERR_KV_TRANSFER_FAILED' } },
  })
  await settle(cluster)
  expect(kept(cluster, 'historyLeasesOpen')).toBe(0)
})

test('RT-13: N = 33 and 30 of 16 a block: the first two blocks are offered, without the last token', async () => {
  const offers: number[][] = []
  const engines = changed((history) => {
    history.offer = ({ keys, blockIds }) => {
      offers.push([keys.length / 32, blockIds.length])
      return null
    }
  })
  const cluster = await open({ engines: { ...engines, blockTokens: 16 } })
  for (const promptTokenCount of [33, 30, 1]) {
    await untilServed(cluster, serve(cluster, { id: `n${promptTokenCount}`, promptTokenCount }))
  }
  await settle(cluster)
  // A prompt of one token has nothing to keep.
  expect(offers).toEqual([
    [2, 2],
    [2, 2],
  ])
})

test('a copy that fails fails nobody: what it would have restored is computed', async () => {
  let isBroken = false
  const cluster = await open({
    engines: {
      ...keepingEngines(),
      history: (world) => {
        const { kernels } = world.fabric
        const relayout: typeof kernels.relayout = (...copy) =>
          isBroken ? Promise.reject(new Error('no device')) : kernels.relayout(...copy)
        const fabric = { ...world.fabric, kernels: { ...kernels, relayout } }
        return historyOf(1)({ ...world, fabric })
      },
    },
  })
  await served(cluster)
  isBroken = true
  const journey = serve(cluster, { id: 'again' })
  await untilServed(cluster, journey)
  expect(journey.producer).toMatchObject({ loadError: 'ERR_KV_TRANSFER_FAILED' })
  await settle(cluster)
  expect(kept(cluster, 'historyFailedLoads')).toBe(1)
})

test('a restore without an end keeps its blocks out of use and its request waiting, until it ends', async () => {
  const ends: (() => void)[] = []
  const engines = changed((history) => {
    const restore = history.restore.bind(history)
    history.restore = async (...args) => {
      await new Promise<void>((end) => ends.push(end))
      return restore(...args)
    }
  })
  const options = keeping(8, 16, { transferDeadlineMs: 500 })
  const cluster = await open({ engines: { ...engines, options } })
  await served(cluster)
  const journey = serve(cluster, { id: 'again' })
  await until(cluster, () => kept(cluster, 'blocksQuarantined') === blockCount, 2_000)
  expect(journey.producer!.status).toBe('loading')
  const { logs } = cluster.engine('p0').host
  expect(logs.some((line) => line.includes('a restore has no end yet'))).toBe(true)
  for (const end of ends) end()
  await untilServed(cluster, journey)
  expect([journey.outcome, kept(cluster, 'historyHitBlocks')]).toEqual(['done', blockCount])
  await settle(cluster)
  expect(kept(cluster, 'blocksQuarantined')).toBe(0)
})

test('RT-49: a budget of 0 keeps nothing and asks nothing, and handoffs go on', async () => {
  const cluster = await open({ engines: { ...keepingEngines(), options: { gpuCacheBytes: 0 } } })
  await served(cluster)
  await served(cluster, 'again')
  expect(kept(cluster, 'ticketsFinished')).toBe(2)
  expect(answersOf(cluster)).toEqual([])
  const names = Object.keys(cluster.engine('p0').host.stats.at(-1)!.counters)
  expect(names.filter((name) => name.startsWith('history'))).toEqual([])
})

test('a producer whose requests would fail for its history’s sake does not start, a consumer does', async () => {
  const world = createWorld({ factory: xavier })
  const start = (role: 'both' | 'consumer') => {
    const config = { role, loadFailurePolicy: 'fail' } as const
    return open({ engines: { ...keepingEngines(), config }, producerCount: 0 }).then(() => world)
  }
  await expect(start('both')).rejects.toMatchObject({
    code: 'ERR_KV_CONFIG',
    details: { field: 'loadFailurePolicy', value: 'fail' },
  })
  await expect(start('consumer')).resolves.toBe(world)
})

test('RT-53: closing while the writer copies, with a ticket open: no lease, ticket or block is left', async () => {
  const cluster = await open({ engines: keepingEngines(400) })
  await handoff(cluster, { id: 'unclaimed', prompt: 2 })
  await untilServed(cluster, serve(cluster, { id: 'copied' }))
  const producer = cluster.engine('p0')
  expect(producer.heldBlockCount).toBe(2 * blockCount)
  await cluster.world.clock.wait(producer.host.shutdown(), 60_000)
  await until(cluster, () => producer.heldBlockCount === 0, 1_000)
  const { ticketsFinished, historyLeasesOpen } = producer.host.stats.at(-1)!.counters
  expect([ticketsFinished, historyLeasesOpen]).toEqual([2, 0])
})

const answersOf = (cluster: Cluster): NonNullable<WorkerOutput['matched']>[number][] =>
  cluster.engine('p0').host.outputs.flatMap(({ matched }) => matched ?? [])
