import { afterAll, beforeAll, expect, test } from 'vitest'
import { complete, promptOf } from '../src/completions.ts'
import { startDeployment, type Deployment } from '../src/deployment.ts'
import { isLoopback, listeningAddresses } from '../src/process-facts.ts'

let deployment: Deployment
beforeAll(async () => {
  deployment = await startDeployment()
})
afterAll(() => deployment?.close())

test('a default deployment listens on loopback addresses only, also after a transfer', async () => {
  const outcome = await complete(deployment.routerUrl, { prompt: promptOf(100, 1), maxTokens: 4 })
  expect(outcome.kind).toBe('text')
  const pids = (['prefill', 'decode', 'router'] as const).map((name) => deployment.child(name).pid)
  for (const pid of pids) {
    expect(listeningAddresses([pid]), `listeners of pid ${pid}`).not.toEqual([])
  }
  expect(listeningAddresses(pids).filter((address) => !isLoopback(address))).toEqual([])
})

test('the check above can fail: it sees a listener on every address', () => {
  expect(['0.0.0.0:80', '*:80', '[::]:80', '10.1.2.3:80'].filter(isLoopback)).toEqual([])
})
