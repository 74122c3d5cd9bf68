/**
 * Closed loop against a server that answers when the test says so: never more requests at once than callers,
 * and the next one only after an answer.
 */
import { createServer, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createSystemClock } from '@kvferry/runtime'
import { Pool } from 'undici'
import { runClosedLoop } from '../src/compare/closed-loop.ts'
import type { LoopResult } from '../src/compare/loop-result.ts'
import type { PlannedRequest } from '../src/compare/schedule.ts'

let server: Server
let pool: Pool
/** Answers that were not given yet, by prompt. */
let open: Map<string, ServerResponse>
let seen: string[]
let onArrival: () => void

beforeEach(async () => {
  open = new Map()
  seen = []
  onArrival = () => {}
  server = createServer((request, response) => {
    let text = ''
    request.on('data', (chunk: Buffer) => (text += chunk.toString()))
    request.on('end', () => {
      const { prompt } = JSON.parse(text) as { prompt: string }
      open.set(prompt, response)
      seen.push(prompt)
      onArrival()
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  pool = new Pool(`http://127.0.0.1:${port}`, { connections: 8 })
})

afterEach(async () => {
  await pool.destroy()
  server.closeAllConnections()
  server.close()
})

const arrivals = (count: number): Promise<void> =>
  new Promise((resolve) => {
    onArrival = () => {
      if (seen.length >= count) resolve()
    }
    onArrival()
  })

function answer(prompt: string): void {
  open.get(prompt)?.end(JSON.stringify({ choices: [{ text: 'ab', finish_reason: 'length' }] }))
  open.delete(prompt)
}

const plan = (count: number): PlannedRequest[] =>
  Array.from({ length: count }, (_, index) => ({
    ...{ index, phase: 'measured' as const, atMs: 0, outputTokens: 2, isStream: false },
    prompt: `p${index}`,
  }))

function run(
  count: number,
  concurrency: number,
  signal = new AbortController().signal,
): Promise<LoopResult> {
  const clock = createSystemClock()
  const context = {
    ...{ pool, clock, signal, model: 'm', basePath: '', idPrefix: 't', tokens: 'bytes' as const },
    requestDeadlineMs: 60_000,
  }
  return runClosedLoop({ requests: plan(count), concurrency, context })
}

describe('closed loop', () => {
  it('sends the next request when an answer is there, in order', async () => {
    const running = run(4, 2)
    await arrivals(2)
    expect([...seen].sort()).toEqual(['p0', 'p1'])
    answer('p1')
    await arrivals(3)
    expect(seen[2]).toBe('p2')
    expect([...open.keys()].sort()).toEqual(['p0', 'p2'])
    answer('p0')
    await arrivals(4)
    expect(seen[3]).toBe('p3')
    answer('p2')
    answer('p3')
    const { records, peakConcurrency } = await running
    expect(peakConcurrency).toBe(2)
    expect(records.map(({ planned, error }) => [planned.index, error])).toEqual(
      [0, 1, 2, 3].map((index) => [index, null]),
    )
    // The third one is due when it can be sent, not when the first ones were.
    const [first, , third] = records
    expect(third?.scheduledAtMs).toBeGreaterThan(first?.scheduledAtMs ?? Infinity)
  })

  it('with one caller is serial', async () => {
    const running = run(3, 1)
    for (const index of [0, 1, 2]) {
      await arrivals(index + 1)
      expect(open.size).toBe(1)
      answer(`p${index}`)
    }
    expect((await running).peakConcurrency).toBe(1)
  })

  it('ends with the reason of an abort, and sends nothing more', async () => {
    const ending = new AbortController()
    const running = run(4, 1, ending.signal)
    await arrivals(1)
    ending.abort(new Error('enough'))
    await expect(running).rejects.toThrow('enough')
    expect(seen).toEqual(['p0'])
  })
})
