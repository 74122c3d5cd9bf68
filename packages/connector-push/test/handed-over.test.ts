/**
 * When a WRITE is handed to the agent: in the very call that tells that the forward was launched which
 * computes its bytes, and behind that forward's fence.
 */
import type { TransferPost } from '@kvferry/connector-api'
import { createWorld, Engine, until } from '@kvferry/connector-api/testing'
import { expect, test } from 'vitest'
import { push } from '../src/index.ts'

const tokenCount = 12

/** D has registered for a prompt of which P has computed nothing yet. */
async function meet(options: Record<string, unknown> = {}) {
  const world = createWorld({ factory: push })
  const posts: TransferPost[] = []
  const p = await Engine.start(world, {
    engineId: 'p0',
    options,
    wrapAgent: (agent) => ({
      ...agent,
      post(more, how) {
        posts.push(...more)
        return agent.post(more, how)
      },
    }),
  })
  const d = await Engine.start(world, { engineId: 'd0' })
  const { view } = p.admit('r', tokenCount, { do_remote_decode: true, transfer_id: 'x' })
  p.step()
  const request = d.admit('r', tokenCount, {
    ...{ do_remote_prefill: true, transfer_id: 'x', tp_size: 1, remote_engine_id: 'p0' },
    ...{ remote_host: '127.0.0.1', remote_port: p.sideChannel.address.port },
  })
  d.step()
  await world.clock.advance(100)
  /** One step of P; how much had been posted before and after its `waitForSave`, and behind which fence. */
  const compute = (computedTokenCountAfter: number) => {
    const scheduled = { requestId: view.requestId, computedTokenCountAfter, newBlockIds: [] }
    p.host.bind(p.host.buildMeta([scheduled], []))
    const fence = p.agent.createFence()
    const before = posts.length
    p.host.save([fence])
    return { fence, before, after: posts.length, isBehindIt: posts.at(-1)?.after === fence }
  }
  return { world, p, request, posts, compute }
}

test('the step that finishes a prompt hands its WRITE over in its `waitForSave`, not a step later', async () => {
  const { world, p, request, posts, compute } = await meet()
  expect(compute(8)).toMatchObject({ before: 0, after: 0 })
  const last = compute(tokenCount)
  expect(last).toMatchObject({ before: 0, after: 1, isBehindIt: true })
  expect(posts[0]!.notification).not.toBe(undefined)
  await world.clock.advance(100)
  expect(request.outcome).toBe('loading')
  p.agent.signalFence(last.fence)
  await until(world, () => request.outcome === 'loaded')
  expect(posts).toHaveLength(1)
})

test('with `progressive` so does the step of every chunk', async () => {
  const { world, p, request, compute } = await meet({ progressive: true })
  for (const [at, tokens] of [4, 8, tokenCount].entries()) {
    const step = compute(tokens)
    expect(step).toMatchObject({ before: at, after: at + 1, isBehindIt: true })
    p.agent.signalFence(step.fence)
    await world.clock.advance(100)
  }
  await until(world, () => request.outcome === 'loaded')
})
