/** Many requests, handshakes and lives of peers: what a connector holds of its agent afterwards. */
import type { TransferAgent } from '@kvferry/connector-api'
import { expect, test } from 'vitest'
import { Engine } from '../fixtures/engine.ts'
import { createPair, prompt, startLoad, until, untilAllFree } from '../fixtures/world.ts'

/** Counts what is taken from an agent and not yet given back, from now on. */
function holdingsOf(agent: TransferAgent) {
  const peers = new Set<unknown>()
  const tables = new Map<unknown, unknown>()
  let [regionCount, fenceCount] = [0, 0]
  const methods = { ...agent }
  agent.addPeer = async (options) => {
    const peer = await methods.addPeer(options)
    peers.add(peer)
    return peer
  }
  agent.removePeer = async (peer) => {
    await methods.removePeer(peer)
    peers.delete(peer)
    // It forgets the peer's tables as well.
    for (const [table, of] of tables) if (of === peer) tables.delete(table)
  }
  agent.importBlockTable = (peer, exported) => {
    const table = methods.importBlockTable(peer, exported)
    tables.set(table, peer)
    return table
  }
  agent.declareBlockTable = (regions) => {
    const table = methods.declareBlockTable(regions)
    tables.set(table, null)
    return table
  }
  agent.releaseBlockTable = (table) => {
    methods.releaseBlockTable(table)
    tables.delete(table)
  }
  agent.registerRegion = async (options) => {
    const region = await methods.registerRegion(options)
    regionCount += 1
    return region
  }
  agent.deregisterRegion = async (region) => {
    await methods.deregisterRegion(region)
    regionCount -= 1
  }
  agent.createFence = () => {
    fenceCount += 1
    return methods.createFence()
  }
  agent.signalFence = (fence, options) => {
    methods.signalFence(fence, options)
    fenceCount -= 1
  }
  return () => ({
    peers: peers.size,
    tables: tables.size,
    regions: regionCount,
    fences: fenceCount,
    transfers: agent.counters().transfersOpen,
  })
}

const shown = ({ metrics }: Engine) =>
  ['requests', 'loads', 'connections', 'leases'].map((of) => metrics.get(`kv_${of}_open`) ?? 0)

const nothing = { peers: 0, tables: 0, regions: 0, fences: 0, transfers: 0 }

test('#24264 lives of P and requests come and go: D holds one peer and its table, then none', async () => {
  // Upstream: each handshake and request registers with UCX, whose cache keeps it: the hosts' memory grows.
  const pair = await createPair()
  const holdings = holdingsOf(pair.d.agent)
  let { p } = pair
  for (let life = 1; life <= 40; life++) {
    for (const turn of ['a', 'b', 'c']) {
      const request = await startLoad({ ...pair, p }, { id: `${turn}${life}` })
      await until(pair.world, () => request.outcome === 'loaded')
      expect(await pair.d.isLoadedRight(request, prompt)).toBe(true)
    }
    await untilAllFree({ ...pair, p })
    expect([life, holdings()]).toEqual([life, { ...nothing, peers: 1, tables: 1 }])
    expect(shown(p)).toEqual([0, 0, 0, 0])
    p.kill()
    await until(pair.world, () => shown(pair.d)[2] === 0, 1_000)
    await until(pair.world, () => holdings().peers === 0, 1_000)
    expect([life, holdings()]).toEqual([life, nothing])
    p = await Engine.start(pair.world, { engineId: 'p0', incarnation: `p0-${life + 1}` })
  }
  expect(pair.d.agent.counters().transfersDone).toBe(120)
})

test('#24264 consumers come and go: P holds no more for the fortieth than for the first', async () => {
  // Upstream: as above, on the side of the producer.
  const pair = await createPair()
  const holdings = holdingsOf(pair.p.agent)
  let { d } = pair
  const seen = []
  for (let life = 1; life <= 40; life++) {
    const request = await startLoad({ ...pair, d }, { id: `r${life}` })
    await until(pair.world, () => request.outcome === 'loaded')
    await untilAllFree({ ...pair, d })
    d.kill()
    await pair.world.clock.advance(1_000)
    seen.push([holdings(), shown(pair.p)])
    d = await Engine.start(pair.world, { engineId: 'd0', incarnation: `d0-${life + 1}` })
  }
  expect(seen).toEqual(seen.map(() => [nothing, [0, 0, 0, 0]]))
})
