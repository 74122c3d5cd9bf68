/**
 * The end of engines and of their parents: SIGTERM within one deadline whatever a peer does, a second signal
 * at once, nothing left of a parent that was killed, and nothing left in shared memory.
 */
import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { afterEach, expect, test } from 'vitest'
import { complete, promptOf } from '../src/completions.ts'
import { binOf, startDeployment, type Deployment } from '../src/deployment.ts'
import { askEngine, forAnother } from '../src/engine-call.ts'
import { expectNothingAbandoned } from '../src/expectations.ts'
import { abandonedSharedMemory } from '../src/process-facts.ts'
import { waitUntil } from '../src/wait-until.ts'

let deployment: Deployment | null = null
afterEach(async () => {
  await deployment?.close()
  deployment = null
})

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

const untilGone = (pid: number, timeoutMs?: number) =>
  waitUntil(`process ${pid} is gone`, () => !isAlive(pid), timeoutMs)

/** For what must not be waited for: beyond the test's own patience. */
const farMs = 600_000

const large = [
  '--model=llama-3.1-8b',
  '--kv-scale=8',
  '--time-scale=0.02',
  '--num-blocks=1024',
  '--max-model-len=512',
  '--prefix-caching=off',
]

test('SIGTERM of D while its transfers hang at a stopped P ends within the deadline', async () => {
  deployment = await startDeployment({
    engineFlags: large,
    connectorOptions: { leaseDurationMs: farMs, transferDeadlineMs: farMs },
    decodeFlags: ['--shutdown-deadline=3000'],
    env: { UCX_TLS: 'tcp' },
  })
  const { routerUrl } = deployment
  const model = 'llama-3.1-8b/8'
  const requests = Array.from({ length: 16 }, (_, index) => ({
    model,
    prompt: promptOf(480, index),
    maxTokens: 4,
  }))
  const outcomes = Promise.all(requests.map((request) => complete(routerUrl, request)))
  const openNow = async () => (await deployment!.stats('decode')).agentCounters.transfersOpen
  await waitUntil('a transfer is open', async () => (await openNow()) > 0)
  deployment.kill('prefill', 'SIGSTOP')
  try {
    const { pid } = deployment.child('decode')
    deployment.kill('decode', 'SIGTERM')
    await untilGone(pid)
  } finally {
    deployment.kill('prefill', 'SIGCONT')
  }
  for (const outcome of await outcomes) {
    if (outcome.kind === 'error') expect(outcome.code).toMatch(/^ERR_KV_/)
  }
})

test('SIGTERM of P with a READ open: it waits for the reader, whose text is the oracle’s', async () => {
  const deadlineMs = 20_000
  const model = 'llama-3.1-8b/8'
  deployment = await startDeployment({
    engineFlags: [...large, '--max-model-len=8192'],
    prefillFlags: [`--shutdown-deadline=${deadlineMs}`],
    env: { UCX_TLS: 'tcp' },
  })
  const { routerUrl } = deployment
  const { pid } = deployment.child('prefill')
  const openReads = async () => (await deployment!.stats('decode')).agentCounters.transfersOpen
  const openLeases = async () =>
    (await deployment!.stats('prefill')).connectorCounters['leasesOpen']

  /** One request, whose READ stands still at a stopped D; null where it was over before D stood. */
  async function catchRead(seed: number) {
    const request = { model, prompt: promptOf(4_000, seed), maxTokens: 4 }
    const outcome = complete(routerUrl, request)
    await waitUntil('its READ is open', async () => (await openReads()) > 0)
    deployment!.kill('decode', 'SIGSTOP')
    if ((await openLeases()) === 1) return { request, outcome }
    deployment!.kill('decode', 'SIGCONT')
    await outcome
    return null
  }
  let caught: Awaited<ReturnType<typeof catchRead>> = null
  for (let seed = 1; caught === null && seed <= 20; seed++) caught = await catchRead(seed)
  if (caught === null) throw new Error('no READ of 20 was caught')
  try {
    deployment.kill('prefill', 'SIGTERM')
    await new Promise((resolve) => setTimeout(resolve, 700))
    expect(isAlive(pid)).toBe(true)
  } finally {
    deployment.kill('decode', 'SIGCONT')
  }
  await untilGone(pid, deadlineMs)
  expect(await caught.outcome).toEqual(await complete(await deployment.oracleUrl(), caught.request))
  // Loaded, and not computed by D itself after all.
  expect((await deployment.stats('decode')).connectorCounters['loadsFailed']).toBe(0)
})

test('SIGTERM of P with a lease that nobody claims: it ends within its deadline, long before the lease', async () => {
  const deadlineMs = 10_000
  deployment = await startDeployment({
    connectorOptions: { leaseDurationMs: farMs },
    prefillFlags: [`--shutdown-deadline=${deadlineMs}`],
  })
  const { pid, ready } = deployment.child('prefill')
  const request = { prompt: promptOf(100, 1), maxTokens: 1 }
  const { params } = await askEngine(ready.url, request, forAnother)
  expect(params).toMatchObject({ do_remote_prefill: true })
  // It begins with P's next step, which the answer need not wait for.
  await waitUntil('the lease is open', async () => {
    return (await deployment!.stats('prefill')).connectorCounters['leasesOpen'] === 1
  })
  deployment.kill('prefill', 'SIGTERM')
  // The process itself takes a moment, on a busy machine a longer one.
  await untilGone(pid, 2 * deadlineMs)
})

test('a second signal ends an engine at once, also with requests open', async () => {
  deployment = await startDeployment({
    engineFlags: ['--time-scale=500', `--shutdown-deadline=${farMs}`],
  })
  const { url } = deployment.child('decode').ready
  const outcome = complete(url, { prompt: promptOf(40, 1), maxTokens: 200 })
  await waitUntil('the request runs', async () => {
    return (await deployment!.stats('decode')).blocks.owned > 0
  })
  const { pid } = deployment.child('decode')
  deployment.kill('decode', 'SIGTERM')
  await waitUntil('it refuses new ones', async () => (await fetch(`${url}/ready`)).status === 503)
  await new Promise((resolve) => setTimeout(resolve, 700))
  expect(isAlive(pid)).toBe(true)
  deployment.kill('decode', 'SIGINT')
  await untilGone(pid)
  expect((await outcome).kind).toBe('error')
})

test('SIGKILL of kvferry-bench leaves no engine and no router behind', async () => {
  // Killed like this, it can't remove its own.
  const folder = mkdtempSync(join(tmpdir(), 'kvferry-e2e-'))
  const bench = spawn(
    process.execPath,
    [
      binOf('@kvferry/benchmarks', 'kvferry-bench'),
      'compare',
      '--preset=quick',
      '--connectors=pull',
    ],
    { stdio: ['ignore', 'ignore', 'pipe'], env: { ...process.env, TMPDIR: folder } },
  )
  createInterface({ input: bench.stderr }).on('line', () => {})
  const engines = (): number[] => {
    const children = readFileSync(`/proc/${bench.pid}/task/${bench.pid}/children`, 'utf8')
    return children
      .trim()
      .split(' ')
      .filter(
        (pid) => pid !== '' && readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('/kvferry-'),
      )
      .map(Number)
  }
  try {
    let pids: number[] = []
    await waitUntil('it has started two programs', () => (pids = engines()).length >= 2)
    bench.kill('SIGKILL')
    await waitUntil('they are gone', () => !pids.some(isAlive))
  } finally {
    bench.kill('SIGKILL')
    rmSync(folder, { recursive: true, force: true })
  }
})

test('engines that were killed leave nothing in shared memory, over which they talked', async () => {
  const before = abandonedSharedMemory()
  deployment = await startDeployment()
  for (let seed = 0; seed < 4; seed++) {
    const outcome = await complete(deployment.routerUrl, {
      prompt: promptOf(300, seed),
      maxTokens: 4,
    })
    expect(outcome.kind).toBe('text')
  }
  const { transports } = (await deployment.stats('decode')) as unknown as { transports: string[] }
  expect(transports.join()).toMatch(/cma|shm|posix|sysv|xpmem/)
  const pids = (['prefill', 'decode'] as const).map((name) => deployment!.child(name).pid)
  deployment.kill('prefill', 'SIGKILL')
  deployment.kill('decode', 'SIGKILL')
  for (const pid of pids) await untilGone(pid)
  await expectNothingAbandoned(before)
})
