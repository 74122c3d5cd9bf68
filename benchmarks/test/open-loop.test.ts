/**
 * Open loop against a server that is slow on purpose: arrivals must not wait for answers, and what waits
 * in the client is counted from the planned moment.
 */
import { createServer, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { createSystemClock } from '@kvferry/runtime'
import { Pool } from 'undici'
import type { SendContext } from '../src/compare/load-client.ts'
import type { LoopResult } from '../src/compare/loop-result.ts'
import { runOpenLoop } from '../src/compare/open-loop.ts'
import type { PlannedRequest } from '../src/compare/schedule.ts'

let server: Server | null = null
let pool: Pool | null = null

afterEach(async () => {
  await pool?.destroy()
  server?.closeAllConnections()
  server?.close()
})

/** Answers nothing until `expected` requests are there, then all of them. */
function answerTogether(expected: number): Promise<string> {
  const open: ServerResponse[] = []
  server = createServer((request, response) => {
    request.resume()
    open.push(response)
    if (open.length < expected) return
    for (const each of open.splice(0)) {
      each.end(JSON.stringify({ choices: [{ text: 'ab', finish_reason: 'length' }] }))
    }
  })
  const listening = server
  return new Promise((resolve) => {
    listening.listen(0, '127.0.0.1', () => {
      resolve(`http://127.0.0.1:${(listening.address() as AddressInfo).port}`)
    })
  })
}

const plan = (count: number, gapMs: number): PlannedRequest[] =>
  Array.from({ length: count }, (_, index) => ({
    index,
    phase: 'measured',
    atMs: index * gapMs,
    prompt: 'x',
    outputTokens: 2,
    isStream: false,
  }))

function run(
  url: string,
  requests: readonly PlannedRequest[],
  concurrencyMax: number,
  signal = new AbortController().signal,
): Promise<LoopResult> {
  pool = new Pool(url, { connections: concurrencyMax })
  const context: SendContext = {
    pool,
    model: 'm',
    basePath: '',
    idPrefix: 'test',
    tokens: 'bytes',
    requestDeadlineMs: 60_000,
    clock: createSystemClock(),
    signal,
  }
  return runOpenLoop({ requests, concurrencyMax, context })
}

describe('runOpenLoop', () => {
  it('sends on schedule although nothing has been answered', async () => {
    const url = await answerTogether(8)
    const { records, peakConcurrency } = await run(url, plan(8, 5), 8)
    expect(records.map((record) => record.error)).toEqual(Array<null>(8).fill(null))
    expect(records.map((record) => record.planned.index)).toEqual([0, 1, 2, 3, 4, 5, 6, 7])
    expect(peakConcurrency).toBe(8)
  })

  it('holds back what exceeds the concurrency, counted from the planned moment', async () => {
    const url = await answerTogether(2)
    const { records, peakConcurrency, startedAtMs } = await run(url, plan(6, 0), 2)
    expect(peakConcurrency).toBe(2)
    for (const record of records) {
      expect(record.error).toBeNull()
      expect(record.scheduledAtMs).toBe(startedAtMs)
    }
    const sent = records.map((record) => record.sentAtMs as number)
    const answered = records.map((record) => record.lastTokenAtMs as number)
    // The third had to wait for one of the first two.
    expect(sent[2]).toBeGreaterThanOrEqual(Math.min(answered[0] as number, answered[1] as number))
  })

  it('ends when it is interrupted, with the reason', async () => {
    const url = await answerTogether(100)
    const controller = new AbortController()
    const running = run(url, plan(4, 1), 4, controller.signal)
    server?.on('request', () => controller.abort(new Error('enough')))
    await expect(running).rejects.toThrow('enough')
  })
})
