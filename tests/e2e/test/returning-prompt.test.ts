/** Prompts that P's own cache dropped come back through its history, between processes over real NIXL. */
import { execFileSync } from 'node:child_process'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { complete, promptOf, type CompletionRequest, type Outcome } from '../src/completions.ts'
import { startDeployment, type Deployment } from '../src/deployment.ts'

const blockTokens = 16
/** 33 blocks; of the first 512 tokens 32, which the history's writer takes in one go. */
const length = 513
const engineFlags = [`--block-size=${blockTokens}`, '--max-model-len=1024', '--num-blocks=128']

let deployment: Deployment
let oracle: string
beforeAll(async () => {
  // 64 blocks in the device tier, as many as the engine has in the host tier.
  const connectorOptions = { gpuCacheBytes: 64 * blockTokens * 1_024 }
  deployment = await startDeployment({ connector: 'xavier', connectorOptions, engineFlags })
  oracle = await deployment.oracleUrl()
})
afterAll(() => deployment?.close())

const requestOf = (seed: number, stream = false): CompletionRequest => ({
  prompt: promptOf(length, seed),
  ...{ maxTokens: 8, stream },
})

/** What it said, and what P did for it. */
async function ask(request: CompletionRequest) {
  const before = await deployment.stats('prefill')
  const outcome: Outcome = await complete(deployment.routerUrl, request)
  await expect
    .poll(async () => (await deployment.stats('prefill')).blocks.leased, { timeout: 60_000 })
    .toBe(0)
  const after = await deployment.stats('prefill')
  const grown = (name: string): number =>
    (after.connectorCounters[name] ?? 0) - (before.connectorCounters[name] ?? 0)
  return {
    outcome,
    restoredBlocks: grown('historyHitBlocks'),
    hostHitBlocks: grown('historyHostHitBlocks'),
    savedBlocks: grown('historySavedBlocks'),
    finished: grown('ticketsFinished'),
    lost: [
      'historyFailures',
      'historyFailedLoads',
      'leasesExpired',
      'historyDeadlineDroppedBlocks',
    ].filter((name) => grown(name) > 0),
    modelledMs: after.modelledMs - before.modelledMs,
    mismatchedBlocks: after.verification.mismatchedBlocks,
  }
}

/** One that the writer got done with: its deadline is 10 ms, however busy the machine is. */
async function kept() {
  for (let seed = 1; seed <= 5; seed += 1) {
    const request = requestOf(seed)
    const first = await ask(request)
    if (first.savedBlocks === 32) return { seed, first, expected: await complete(oracle, request) }
  }
  throw new Error('of five prompts none was kept whole')
}

test('RT-30, RT-52: a prompt that P dropped is restored block for block, computes less and says the same; streamed and not', async () => {
  const { seed: keptSeed, first, expected } = await kept()
  expect(first).toMatchObject({ outcome: expected, restoredBlocks: 0, finished: 1 })
  for (const stream of [false, true]) {
    // Four others fill P's 128 blocks.
    for (const seed of [20, 30, 40, 50]) await ask(requestOf(seed + Number(stream)))
    const again = await ask(requestOf(keptSeed, stream))
    expect(again).toMatchObject({ outcome: expected, restoredBlocks: 32, finished: 1, lost: [] })
    // The others have pushed it out of the device tier, too.
    expect(again).toMatchObject({ hostHitBlocks: 32, mismatchedBlocks: 0 })
    expect(again.modelledMs).toBeLessThan(first.modelledMs / 2)
  }
  const metrics = await (await fetch(`${deployment.child('prefill').ready.url}/metrics`)).text()
  expect(metrics).toContain('kv_history_hit_blocks_total{tier="host"} 64')
})

test('RT-09: the build that these processes run has its assertions, in production, too', () => {
  const script = `
    import { assert } from '@kvferry/connector-api'
    try { assert(false, 'kept') } catch (error) { process.stdout.write(error.message) }`
  const options = { cwd: import.meta.dirname, env: { ...process.env, NODE_ENV: 'production' } }
  const args = ['--input-type=module', '--eval', script]
  expect(execFileSync(process.execPath, args, options).toString()).toContain('kept')
})
