/**
 * What a client that reaches the engines' HTTP ports can do with `kv_transfer_params`: nothing but get the
 * right text later. Real engines over NIXL, the decode engine with a list of peers; a trap listens
 * where forged coordinates lead.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { complete, promptOf, type Outcome } from '../src/completions.ts'
import { freePort, startDeployment, type Deployment } from '../src/deployment.ts'
import { waitUntil } from '../src/wait-until.ts'

type Params = Record<string, unknown>

/** Long enough for a busy machine to read in time, short enough to be waited for. */
const leaseDurationMs = 4_000
const maxTokens = 4
let deployment: Deployment
let directory: string
let trap: Server
let trapPort: number
let visits = 0

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'kvferry-hostile-'))
  const port = await freePort()
  const config = join(directory, 'decode.json')
  const peers = [{ engineId: 'prefill', host: '127.0.0.1', port }]
  writeFileSync(config, JSON.stringify({ connector: 'pull', role: 'consumer', peers }))
  trap = createServer((socket) => {
    visits++
    socket.destroy()
  })
  trapPort = await freePort()
  await new Promise<void>((resolve) => trap.listen(trapPort, '127.0.0.1', resolve))
  deployment = await startDeployment({
    engineFlags: ['--prefix-caching=off'],
    connectorOptions: { leaseDurationMs, transferDeadlineMs: leaseDurationMs },
    prefillFlags: [`--side-channel-port=${port}`],
    decodeFlags: [`--config=${config}`],
  })
})
afterAll(async () => {
  await deployment?.close()
  trap?.close()
  rmSync(directory, { recursive: true })
})

async function post(url: string, body: object): Promise<{ status: number; answer: Params }> {
  const response = await fetch(`${url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'tiny', ...body }),
  })
  return { status: response.status, answer: (await response.json()) as Params }
}

const urlOf = (name: 'prefill' | 'decode') => deployment.child(name).ready.url

async function handoffFor(prompt: string): Promise<Params> {
  const asked = { do_remote_decode: true, do_remote_prefill: false }
  const { answer } = await post(urlOf('prefill'), {
    prompt,
    max_tokens: 1,
    kv_transfer_params: asked,
  })
  const params = answer['kv_transfer_params'] as Params | null
  expect(params).not.toBeNull()
  return params as Params
}

async function decodeWith(prompt: string, params: Params): Promise<Outcome> {
  const body = { prompt, max_tokens: maxTokens, kv_transfer_params: params }
  const { status, answer } = await post(urlOf('decode'), body)
  expect(status).toBe(200)
  return { kind: 'text', text: (answer['choices'] as { text: string }[])[0]!.text }
}

const loaded = async () => (await deployment.stats('decode')).verification.blocksLoaded

/** The text that the decode engine gives, and how many blocks it took from elsewhere for it. */
async function outcomeOf(prompt: string, params: Params) {
  const before = await loaded()
  const outcome = await decodeWith(prompt, params)
  const expected = await complete(await deployment.oracleUrl(), { prompt, maxTokens })
  expect(outcome).toEqual(expected)
  return (await loaded()) - before
}

describe('the decode engine', () => {
  test('takes blocks by a true handoff (the control)', async () => {
    const prompt = promptOf(160, 1)
    expect(await outcomeOf(prompt, await handoffFor(prompt))).toBe(10)
  })

  test('goes to the configured peer, wherever a handoff sends it', async () => {
    const prompt = promptOf(160, 2)
    const lie = { ...(await handoffFor(prompt)), remote_host: '127.0.0.1', remote_port: trapPort }
    await outcomeOf(prompt, lie)
    expect(visits).toBe(0)
  })

  test.each([
    ['another engine', { remote_engine_id: 'evil' }],
    [
      'an address of the cloud',
      { remote_engine_id: 'evil', remote_host: '169.254.169.254', remote_port: 80 },
    ],
    ['another incarnation', { remote_incarnation: '0000' }],
    ['a signature of nobody', { remote_signature: '00'.repeat(32) }],
    ['blocks of somebody else', { remote_block_ids: [[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]] }],
    ['a lease without end', { remote_lease_deadline_ms: 1e15 }],
    ['another request', { remote_request_id: 'cmpl-somebody-else' }],
  ])('computes itself what a handoff gives that names %s', async (_, change) => {
    const prompt = promptOf(160, 3)
    const lie = { ...(await handoffFor(prompt)), remote_port: trapPort, ...change }
    expect(await outcomeOf(prompt, lie)).toBe(0)
    expect(visits).toBe(0)
  })

  test('computes itself a prompt that comes with a true handoff of another of its length', async () => {
    const handoff = await handoffFor(promptOf(160, 6))
    expect(await outcomeOf(promptOf(160, 7), handoff)).toBe(0)
    expect(await outcomeOf(promptOf(160, 6), handoff)).toBe(10)
  })

  test('does not read twice by one handoff', async () => {
    const prompt = promptOf(160, 4)
    const handoff = await handoffFor(prompt)
    expect(await outcomeOf(prompt, handoff)).toBe(10)
    expect(await outcomeOf(prompt, handoff)).toBe(0)
  })

  test('does not read by a handoff whose lease is over', async () => {
    const prompt = promptOf(160, 5)
    const handoff = await handoffFor(prompt)
    await waitUntil('the lease is over', async () => {
      return (await deployment.stats('prefill')).blocks.leased === 0
    })
    expect(await outcomeOf(prompt, handoff)).toBe(0)
  })

  test('and the prefill engine hold nothing after all this', async () => {
    await waitUntil('no block is kept', async () => {
      const counts = [await deployment.stats('prefill'), await deployment.stats('decode')]
      const held = counts.map(({ blocks }) => blocks.owned + blocks.leased + blocks.quarantined)
      if (held.every((count) => count === 0)) return true
      throw new Error(JSON.stringify(counts.map(({ blocks }) => blocks)))
    })
  })
})
