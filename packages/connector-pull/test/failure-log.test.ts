/** Whoever reads the log of a failed load finds where it was to come from, and what of it failed. */
import { ConnectorError, type PeerHandle } from '@kvferry/connector-api'
import { expect, test } from 'vitest'
import { createPair, prompt, slowFabric, startLoad, until, type Pair } from './fixtures/world.ts'

/** The fields of the lines that tell of failed loads. */
const failures = ({ d }: Pair): unknown[] =>
  d.logs
    .filter((line) => line.startsWith('load failed: '))
    .map((line) => JSON.parse(line.slice(line.lastIndexOf(' {'))) as unknown)

const whereOf = ({ p }: Pair) => ({ engineId: 'p0', ...p.sideChannel.address })

test('the handshake fails: engine, address, both requests and their blocks (21)', async () => {
  const pair = await createPair({ p: { caches: { dtype: 'float8' } } })
  const request = await startLoad(pair, { hitTokenCount: 8 })
  await until(pair.world, () => request.outcome === 'failed')
  expect(failures(pair)).toEqual([
    {
      ...{ requestId: 'd-r0', code: 'ERR_KV_PEER_INCOMPATIBLE', blocks: 6, rank: 0 },
      ...whereOf(pair),
      ...{ producerRequestId: 'p-r0', producerBlocks: 8, failedRanks: '0' },
    },
  ])
})

test('one rank’s post is refused, or its READ fails: that rank is named (21)', async () => {
  const pair = await createPair({ p: { tpSize: 2 }, d: { kvHeadCount: 2 }, times: slowFabric })
  const { agent } = pair.d
  const [addPeer, post] = [agent.addPeer.bind(agent), agent.post.bind(agent)]
  let second: PeerHandle | null = null
  agent.addPeer = async (options) => {
    const peer = await addPeer(options)
    if (options.expectedName === pair.p.host.ranks[1]!.agent.name) second = peer
    return peer
  }
  agent.post = (posts, options) => {
    if (posts.every(({ peer }) => peer !== second)) return post(posts, options)
    throw new ConnectorError('ERR_NIXL', 'refused', { operation: 'post', status: 'BACKEND' })
  }
  const refused = await startLoad(pair)
  await until(pair.world, () => refused.outcome === 'failed')
  agent.post = post
  pair.world.fabric.faults.failNextPosts(agent.name, 1)
  const broken = await startLoad(pair, { id: 'r1' })
  await until(pair.world, () => broken.outcome === 'failed')
  expect(failures(pair)).toMatchObject([
    { requestId: 'd-r0', code: 'ERR_NIXL', blocks: 8, ...whereOf(pair), failedRanks: '1' },
    // Whichever posts first.
    { code: 'ERR_KV_TRANSFER_FAILED', failedRanks: expect.stringMatching(/^[01]$/) as string },
  ])
})

test('an order that is no order of this cache: told like the others, and no rank was asked (21)', async () => {
  const pair = await createPair()
  const load = pair.d.arrive('d-r0', 8, await pair.p.prefill('p-r0', prompt, 8))
  load.outcome = 'loading'
  pair.d.scheduler.updateStateAfterAlloc(load.view, [Uint32Array.of(1, 2), Uint32Array.of(3, 4)], 8)
  pair.d.step()
  await until(pair.world, () => load.outcome === 'failed', 100)
  expect(failures(pair)).toMatchObject([
    { code: 'ERR_KV_UNSUPPORTED', blocks: 4, engineId: 'p0', producerBlocks: 2, failedRanks: '' },
  ])
})

test('the notification fails: the bytes are there, and the load is good; P frees by its lease (21)', async () => {
  const options = { leaseDurationMs: 2_000 }
  const pair = await createPair({ p: { options }, d: { options } })
  pair.world.fabric.faults.notifications.lossChance = 1
  const request = await startLoad(pair)
  await until(pair.world, () => request.outcome === 'loaded')
  expect(await pair.d.isLoadedRight(request, prompt)).toBe(true)
  expect(failures(pair)).toEqual([])
  expect(pair.p.free.length).toBe(56)
  await until(pair.world, () => pair.p.free.length === 64, 2 * options.leaseDurationMs)
  expect(pair.p.metrics.get('kv_leases_expired_total')).toBe(1)
})
