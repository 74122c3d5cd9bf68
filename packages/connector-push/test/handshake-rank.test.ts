import { asEngineId, asIncarnation, limits } from '@kvferry/connector-api'
import { factsOf, protocolLimits } from '@kvferry/connector-api/protocol'
import { createWorld, Engine } from '@kvferry/connector-api/testing'
import { expect, test } from 'vitest'
import { encodeHandshakeRequest, kindOf } from '@kvferry/connector-api/remote-writes'
import { pushIdentity } from '../src/identity.ts'
import { push } from '../src/index.ts'

/** How a producer of one rank and two heads answers that rank of a consumer of two. */
async function shakeHands(rank: number): Promise<unknown> {
  const world = createWorld({ factory: push })
  const p = await Engine.start(world, { engineId: 'p0', caches: { kvHeadCount: 2 } })
  const { caches, sideChannel } = p
  const regions = caches.regions.map((region) => ({
    ...region,
    blockSizeBytes: region.blockSizeBytes / 2,
  }))
  const its = { ...caches, kvHeadCount: 1, regions }
  const body = encodeHandshakeRequest({
    ...{ rank, facts: factsOf(pushIdentity, its, { tpRank: 0, tpSize: 2, ppRank: 0, ppSize: 1 }) },
    ...{ agentName: 'd0', agentMetadata: new Uint8Array(8), blockTable: new Uint8Array(8) },
    token: new Uint8Array(protocolLimits.tokenSizeBytes),
  })
  const d = { engineId: asEngineId('d0'), incarnation: asIncarnation('d0-1') }
  const channel = world.channels.open(d)
  const address = { ...sideChannel.address, engineId: asEngineId('p0') }
  const association = await world.clock.wait(channel.connect(address), limits.sideChannelTimeoutMs)
  const answer = association.request(kindOf('push', 'handshake', 0), body)
  return world.clock.wait(
    answer.then(
      () => null,
      (error: unknown) => error,
    ),
    limits.sideChannelTimeoutMs,
  )
}

test('a rank without heads of this rank is refused by name', async () => {
  expect(await shakeHands(2)).toMatchObject({
    code: 'ERR_KV_PEER_INCOMPATIBLE',
    details: { field: 'rank', local: 'one of 0, 1', remote: '2' },
  })
  // One that has some is told of its metadata, which is none.
  expect(await shakeHands(1)).toMatchObject({ code: 'ERR_KV_MESSAGE_INVALID' })
})
