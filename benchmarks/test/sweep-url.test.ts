/** Servers given by URL: what they are asked, how their tokens are counted, and how long one waits for them. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import type { PointFile } from '../src/sweep/point-file.ts'
import { runCommand } from './fake-programs.ts'

let directory = ''
let server: Server | null = null
let bodies: Record<string, unknown>[] = []

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'kvferry-bench-test-'))
  bodies = []
})
afterEach(() => {
  rmSync(directory, { recursive: true, force: true })
  server?.closeAllConnections()
  server?.close()
  server = null
})

/** Two tokens of a real tokenizer an event, as with speculative decoding. */
function answer(body: Record<string, unknown>): string {
  const events = ['Hello ', 'world'].map((text) => ({ choices: [{ text, finish_reason: null }] }))
  const end = { choices: [{ text: '', finish_reason: 'length' }] }
  const usage = { choices: [], usage: { completion_tokens: body['max_tokens'] } }
  return [...events, end, usage].map((event) => `data: ${JSON.stringify(event)}\n\n`).join('')
}

/** Lists its model only at the `readyAfter`th question. */
async function startServer(readyAfter: number): Promise<string> {
  let asked = 0
  server = createServer((request, response) => {
    if (request.url === '/base/v1/models') {
      const isReady = ++asked > readyAfter
      response.writeHead(isReady ? 200 : 503)
      return response.end(JSON.stringify(isReady ? { data: [{ id: 'Qwen' }] } : {}))
    }
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const body = JSON.parse(Buffer.concat(chunks).toString()) as Record<string, unknown>
      bodies.push(body)
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.end(`${answer(body)}data: [DONE]\n\n`)
    })
  })
  await new Promise<void>((resolve) => server?.listen(0, '127.0.0.1', resolve))
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/base/v1`
}

const grid = ['--qps', '400', '--input-lens', '32', '--output-lens', '4', '--requests', '5']

it('waits for the server, sends token ids of the planned length, believes its count of tokens', async () => {
  const url = await startServer(2)
  const at = ['--results-dir', directory]
  const outcome = await runCommand(['sweep', '--url', `push=${url}`, ...grid, ...at])
  expect(outcome.stdout).toContain('All checks passed.')
  expect(outcome.exitCode).toBe(0)
  const path = join(directory, 'push_qps400_in32_out4_iter1.json')
  const file = JSON.parse(readFileSync(path, 'utf8')) as PointFile
  expect(file).toMatchObject({ model_id: 'Qwen', completed: 5, total_output_tokens: 20 })
  expect(file.kvferry).toMatchObject({ target: 'url', valid: null, run: null })
  expect(file.kvferry.conditions.engine).toBeNull()
  expect(bodies).toHaveLength(8)
  expect(bodies[0]).toMatchObject({ model: 'Qwen', stream: true, ignore_eos: true, max_tokens: 4 })
  expect(bodies[0]?.['prompt']).toHaveLength(32)
})

it('gives up at the deadline, and says for what it waited', async () => {
  const url = await startServer(1_000_000)
  const at = ['--results-dir', directory, '--ready-timeout', '1']
  const outcome = await runCommand(['sweep', '--url', `push=${url}`, ...grid, ...at])
  expect(outcome.exitCode).toBe(1)
  expect(outcome.stdout).toMatch(/push_qps400.*\/v1\/models: not ready after 1 s: HTTP 503/)
})

it('refuses a label that is taken', async () => {
  const args = ['sweep', '--connectors', 'pull', '--url', 'pull=http://127.0.0.1:1']
  const outcome = await runCommand([...args, '--results-dir', directory])
  expect(outcome.stderr).toMatch(/--url pull: that label is taken/)
  expect(outcome.exitCode).toBe(2)
})
