/**
 * Engines of different TP sizes: each rank of D reads from every rank of P that has some of its heads, and each
 * rank of P counts those of D that read from it. (Items 14 and 15 of vLLM's list, and 2.10 of its mapping.)
 */
import { asEngineId, asRequestId, ConnectorError, type TransferAgent } from '@kvferry/connector-api'
import { delegate } from '@kvferry/connector-api/conformance'
import { factsOf } from '@kvferry/connector-api/protocol'
import type { World } from '@kvferry/connector-api/testing'
import { expect, test } from 'vitest'
import { pull } from '../src/index.ts'
import { encodeHandshakeRequest, encodeLeaseQuestion } from '../src/messages.ts'
import {
  createPair,
  prompt,
  slowFabric,
  startLoad,
  until,
  untilAllFree,
  type Pair,
} from './fixtures/world.ts'

const flipped = (hex: string, at: number): string =>
  hex.slice(0, at) + (hex[at] === '0' ? '1' : '0') + hex.slice(at + 1)

/** Four heads, shared out over so many ranks on each side. */
const pairOf = (p: number, d: number, options: Parameters<typeof createPair>[0] = {}) =>
  createPair({
    ...options,
    p: { tpSize: p, kvHeadCount: 4, ...options.p },
    d: { tpSize: d, kvHeadCount: 4, ...options.d },
  })

const postedBy = ({ d }: Pair): number[] =>
  d.host.ranks.map(({ agent }) => agent.counters().transfersPosted)

test.each([
  [2, 1, [2]],
  [1, 2, [1, 1]],
  [4, 2, [2, 2]],
  [2, 4, [1, 1, 1, 1]],
])(
  'P with %i and D with %i ranks: one READ for each rank that shares heads',
  async (p, d, posts) => {
    const pair = await pairOf(p, d)
    const request = await startLoad(pair)
    await until(pair.world, () => request.outcome === 'loaded')
    expect(await pair.d.isLoadedRight(request, prompt)).toBe(true)
    expect(postedBy(pair)).toEqual(posts)
    await untilAllFree(pair)
    expect(pair.p.outputs.flatMap(({ sent }) => sent)).toEqual(['p-r0'])
    expect(pair.d.outputs.flatMap(({ received }) => received)).toEqual(['d-r0'])
  },
)

/** That rank meets its producer so much later than the others. */
function withLateRank(tpRank: number, lateMs: number, world: () => World) {
  return (agent: TransferAgent): TransferAgent =>
    delegate(agent, {
      async addPeer(peer) {
        if (agent.name.endsWith(`/${tpRank}`)) await wait(world(), lateMs)
        return agent.addPeer(peer)
      },
    })
}

const wait = (world: World, delayMs: number) =>
  new Promise<void>((resolve) => world.clock.after(delayMs, resolve))

test('P of one rank frees when the last of D’s ranks has read, not before', async () => {
  let pair: Pair | null = null
  const wrapAgent = withLateRank(1, 300, () => pair!.world)
  pair = await pairOf(1, 2, { d: { wrapAgent } })
  const request = await startLoad(pair)
  await pair.world.clock.advance(200)
  expect(postedBy(pair)).toEqual([1, 0])
  expect(pair.d.host.ranks[0]!.agent.counters().transfersDone).toBe(1)
  expect(pair.p.free.length).toBe(56)
  expect(request.outcome).toBe('loading')
  await until(pair.world, () => request.outcome === 'loaded')
  expect(await pair.d.isLoadedRight(request, prompt)).toBe(true)
  await untilAllFree(pair)
  expect(pair.p.metrics.get('kv_late_notifications_total')).toBe(undefined)
})

test('one share’s handoff is refused: no share is read, and the load fails once', async () => {
  const pair = await pairOf(2, 1, { times: slowFabric })
  const warmUp = await startLoad(pair, { id: 'warm-up', tokenCount: 4 })
  await until(pair.world, () => warmUp.outcome === 'loaded')
  const params = await pair.p.prefill('p-r0', prompt, 30)
  const remote_signature = flipped(params['remote_signature'] as string, 64)
  const request = pair.d.admit('d-r0', 30, { ...params, remote_signature })
  pair.d.step()
  await until(pair.world, () => request.outcome !== 'loading')
  expect(request.errorCode).toBe('ERR_KV_UNAUTHORISED')
  expect(request.failedBlocks).toEqual([...request.blocks])
  // Those of the one before.
  expect(postedBy(pair)).toEqual([2])
  expect(pair.d.outputs.flatMap(({ failed }) => failed)).toHaveLength(1)
  await untilAllFree(pair)
})

test('the agent refuses one share as the other leaves: that READ is waited for, and the load fails once', async () => {
  // Both at once, then each alone.
  let verdicts: boolean[] = []
  const wrapAgent = (agent: TransferAgent): TransferAgent =>
    delegate(agent, {
      post(posts, options) {
        if (verdicts.shift() === false)
          throw new ConnectorError('ERR_KV_CLOSED', 'no', { what: 'x' })
        return agent.post(posts, options)
      },
    })
  const pair = await pairOf(2, 1, { times: slowFabric, d: { wrapAgent } })
  const warmUp = await startLoad(pair, { id: 'warm-up', tokenCount: 4 })
  await until(pair.world, () => warmUp.outcome === 'loaded')
  verdicts = [false, true, false]
  const request = await startLoad(pair)
  await until(pair.world, () => request.outcome !== 'loading')
  expect(verdicts).toEqual([])
  expect(request.errorCode).toBe('ERR_KV_CLOSED')
  expect(request.failedBlocks).toEqual([...request.blocks])
  const { transfersPosted, transfersOpen } = pair.d.agent.counters()
  expect([transfersPosted, transfersOpen]).toEqual([3, 0])
  expect(pair.d.outputs.flatMap(({ failed }) => failed)).toHaveLength(1)
  await untilAllFree(pair)
})

test('a handoff used twice by a consumer of two ranks: one load has all shares, the other none', async () => {
  for (let seed = 1; seed <= 8; seed++) {
    const pair = await pairOf(1, 2, { seed, times: slowFabric })
    const params = await pair.p.prefill('p-r0', prompt, 30)
    const loads = ['d-a', 'd-b'].map((id) => pair.d.admit(id, 30, params))
    pair.d.step()
    await until(pair.world, () => loads.every(({ outcome }) => outcome !== 'loading'))
    expect(loads.map(({ outcome }) => outcome).sort()).toEqual(['failed', 'loaded'])
    const [good] = loads.filter(({ outcome }) => outcome === 'loaded')
    expect(await pair.d.isLoadedRight(good!, prompt)).toBe(true)
  }
})

test('given up while all shares are read: the blocks come back with the last of them', async () => {
  const pair = await pairOf(4, 2, { times: slowFabric })
  const request = await startLoad(pair)
  const agents = pair.d.host.ranks.map(({ agent }) => agent)
  await until(pair.world, () => agents.every((agent) => agent.counters().transfersOpen === 2))
  pair.d.finish('d-r0', 'aborted')
  await until(pair.world, () => request.outcome === 'freed')
  expect(agents.map((agent) => agent.counters().transfersOpen)).toEqual([0, 0])
  await untilAllFree(pair)
})

test.each([
  [2, 1],
  [1, 2],
  [4, 2],
])(
  '%i to %i: a full hit frees at once; a lease in a queue is kept with every rank',
  async (p, d) => {
    const options = { leaseDurationMs: 2_000 }
    const pair = await pairOf(p, d, { p: { options }, d: { options } })
    pair.d.admit('d-hit', 30, await pair.p.prefill('p-hit', prompt, 30), 32)
    pair.d.step()
    await until(pair.world, () => pair.p.free.length === 64, 100)
    const request = pair.d.arrive('d-r0', 30, await pair.p.prefill('p-r0', prompt, 30))
    pair.d.step()
    await pair.world.clock.advance(10_000)
    pair.d.allocate(request)
    pair.d.step()
    await until(pair.world, () => request.outcome === 'loaded')
    expect(await pair.d.isLoadedRight(request, prompt)).toBe(true)
    await untilAllFree(pair)
  },
)

test.each([
  [2, 1],
  [1, 2],
])('%i to %i through host memory: copied when every share is there', async (p, d) => {
  const config = { bufferDevice: 'host' } as const
  const pair = await pairOf(p, d, { times: slowFabric, p: { config }, d: { config } })
  const request = await startLoad(pair)
  await until(pair.world, () => request.outcome === 'loaded')
  expect(await pair.d.isLoadedRight(request, prompt)).toBe(true)
  await untilAllFree(pair)
})

test('a rank that has none of the producer rank’s heads is refused in the handshake', async () => {
  const pair = await pairOf(2, 2)
  const { host, port } = pair.p.sideChannel.address
  const address = { host, port, engineId: asEngineId('p0') }
  const association = await pair.world.clock.wait(pair.d.sideChannel.connect(address), 100)
  const { caches } = pair.d.host.ranks[1]!
  const own = factsOf(pull, caches, { tpRank: 1, tpSize: 2, ppRank: 0, ppSize: 1 })
  const ask = (kind: string, rank: number) => {
    const body = encodeHandshakeRequest({ rank, facts: own })
    const answer = association.request(kind, body).then(
      () => 'granted',
      (error: unknown) => (error as ConnectorError).code,
    )
    return pair.world.clock.wait(answer, 100)
  }
  expect(await ask('pull.handshake/1', 1)).toBe('granted')
  expect(await ask('pull.handshake', 1)).toBe('ERR_KV_PEER_INCOMPATIBLE')
})

test('a rank that never shook hands may neither ask for a lease nor end one', async () => {
  const pair = await pairOf(1, 2)
  await pair.p.prefill('p-r0', prompt, 30)
  const { host, port } = pair.p.sideChannel.address
  const address = { host, port, engineId: asEngineId('p0') }
  const association = await pair.world.clock.wait(pair.d.sideChannel.connect(address), 100)
  const body = encodeLeaseQuestion({ rank: 1, requestId: asRequestId('p-r0'), loadId: 0 })
  for (const kind of ['pull.renew', 'pull.release']) {
    const answer = association.request(kind, body).catch((error: unknown) => error)
    const error = await pair.world.clock.wait(answer, 100)
    expect(error).toMatchObject({ code: 'ERR_KV_UNAUTHORISED' })
  }
  expect(pair.p.free.length).toBe(56)
})
