/**
 * A request that the decode engine refuses after the prefill engine has answered: the router gives the
 * handoff back, and the prefill engine's blocks are free long before their lease ends.
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { complete, promptOf } from '../src/completions.ts'
import { startDeployment, type Deployment } from '../src/deployment.ts'
import { waitUntil } from '../src/wait-until.ts'

const leaseDurationMs = 120_000
let deployment: Deployment
beforeAll(async () => {
  deployment = await startDeployment({
    connectorOptions: { leaseDurationMs },
    decodeFlags: ['--max-model-len=64'],
  })
})
afterAll(() => deployment?.close())

test('blocks of a refused request are free at once, also when it is longer than the decode engine allows', async () => {
  const { routerUrl } = deployment
  const leased = async () => (await deployment.stats('prefill')).blocks.leased
  const refused = await complete(routerUrl, { prompt: promptOf(300, 1), maxTokens: 4 })
  expect(refused).toMatchObject({ kind: 'error', status: 400, code: 'ERR_KV_LIMIT' })
  await waitUntil('no lease is left', async () => (await leased()) === 0, leaseDurationMs / 2)
  const metrics = await (await fetch(`${routerUrl}/metrics`)).text()
  expect(metrics).toMatch(/^kv_router_releases_total\{outcome="sent"\} 1$/m)
  // The control: what fits is served, and its lease ends by the read.
  expect((await complete(routerUrl, { prompt: promptOf(40, 2), maxTokens: 4 })).kind).toBe('text')
  await waitUntil('no lease is left', async () => (await leased()) === 0, leaseDurationMs / 2)
})
