/** When both engines hold the room that the other waits for, and when one only takes long. */
import { asRequestId } from '@kvferry/connector-api'
import { createWorld, Engine } from '@kvferry/connector-api/testing'
import { writeLimits } from '@kvferry/connector-api/remote-writes'
import { expect, test } from 'vitest'
import { push } from '../src/index.ts'

const tokenCount = 8

/**
 * `held` is computed on P, and D has no room for it. D has registered for `slow`, of which P has computed a
 * first chunk.
 */
async function meet() {
  const world = createWorld({ factory: push })
  const p = await Engine.start(world, { engineId: 'p0' })
  const d = await Engine.start(world, { engineId: 'd0' })
  const arriveAt = (id: string) =>
    d.arrive(id, tokenCount, {
      ...{ do_remote_prefill: true, transfer_id: id, tp_size: 1, remote_engine_id: 'p0' },
      ...{ remote_host: '127.0.0.1', remote_port: p.sideChannel.address.port },
    })
  const compute = (id: string, computedTokenCountAfter: number): void => {
    const requestId = asRequestId(id)
    p.host.bind(p.host.buildMeta([{ requestId, computedTokenCountAfter, newBlockIds: [] }], []))
    p.host.save(null)
  }
  const held = p.admit('held', tokenCount, { do_remote_decode: true, transfer_id: 'held' })
  compute('held', tokenCount)
  held.view = { ...held.view, computedTokenCount: tokenCount }
  p.finish('held', 'length-capped')
  p.admit('slow', tokenCount, { do_remote_decode: true, transfer_id: 'slow' })
  arriveAt('held')
  d.allocate(arriveAt('slow'))
  d.step()
  compute('slow', tokenCount / 2)
  return { world, p, d, held }
}

const givenUp = ({ host }: Engine): number => host.stats.at(-1)?.counters['offersGivenUp'] ?? 0

test('a prompt that takes longer than the stall limit is no stall: what waits for room is kept', async () => {
  const { world, d, held } = await meet()
  await world.clock.advance(3 * writeLimits.roomStallMs)
  d.step()
  expect(givenUp(d)).toBe(0)
  expect(held.outcome).toBe('ended')
})

test('when it loses its room, each has what the other waits for: what is held is given up', async () => {
  const { world, p, d, held } = await meet()
  await world.clock.advance(3 * writeLimits.roomStallMs)
  p.step(['slow'])
  // At the latest with the heartbeat after the limit.
  await world.clock.advance(2 * writeLimits.roomStallMs)
  d.step()
  expect(givenUp(d)).toBe(1)
  expect(held.outcome).toBe('freed')
})
