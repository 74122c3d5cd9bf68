/** Read-done notifications travel outside the association: what a stranger can send, and what it changes. */
import { expect, test } from 'vitest'
import { encodeReadDone } from '../src/notification.ts'
import { Engine } from './fixtures/engine.ts'
import { createPair, prompt, startLoad, until, untilAllFree, type Pair } from './fixtures/world.ts'

/** Handshake and wire-up out of the way. */
async function warmUp(pair: Pair, id = 'warm-up'): Promise<void> {
  const request = await startLoad(pair, { id, tokenCount: 4 })
  await until(pair.world, () => request.outcome === 'loaded')
  await untilAllFree(pair)
}

test('forged words free nothing and are counted', async () => {
  const pair = await createPair()
  await warmUp(pair)
  await pair.p.prefill('p-r0', prompt, 30)
  const requestId = pair.p.requests.get('p-r0')!.view.requestId
  const forged = encodeReadDone({ token: new Uint8Array(16), loadId: 1, requestId })
  const messages = [forged, new Uint8Array(), forged.subarray(0, 20), new Uint8Array(600)]
  for (const message of messages) {
    pair.world.fabric.forge(pair.p.agent.name, { from: pair.d.agent.name, message })
  }
  await pair.world.clock.advance(100)
  expect(pair.p.free.length).toBe(56)
  expect(pair.p.metrics.get('kv_messages_refused_total notification')).toBe(4)
})

test('the token of a consumer’s former life is void', async () => {
  const pair = await createPair()
  const { agent } = pair.d
  const post = agent.post.bind(agent)
  let heard: Uint8Array | undefined
  agent.post = (posts, options) => {
    heard = posts[0]!.notification
    return post(posts, options)
  }
  await warmUp(pair)
  pair.d.kill()
  const next = await Engine.start(pair.world, { engineId: 'd0', incarnation: 'd0-2' })
  await warmUp({ ...pair, d: next }, 'warm-up-2')
  await pair.p.prefill('p-r0', prompt, 30)
  const requestId = pair.p.requests.get('p-r0')!.view.requestId
  const message = encodeReadDone({ token: heard!.slice(0, 16), loadId: 1, requestId })
  pair.world.fabric.forge(pair.p.agent.name, { from: agent.name, message })
  await pair.world.clock.advance(100)
  expect(pair.p.free.length).toBe(56)
  expect(pair.p.metrics.get('kv_messages_refused_total notification')).toBe(1)
})
