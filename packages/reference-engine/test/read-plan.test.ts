/** Which slots a step reads: a function of the request alone, and never too many. */
import { asRequestId, digestTokens } from '@kvferry/connector-api'
import { describe, expect, it } from 'vitest'
import { planReads } from '../src/core/read-plan.ts'
import { EngineRequest } from '../src/core/request-state.ts'

/** A request that has said `output` tokens already. */
function requestWith(promptTokenCount: number, output: number, maxTokens = 500): EngineRequest {
  const input = {
    requestId: asRequestId('r'),
    promptTokens: new Uint8Array(promptTokenCount).fill(97),
    promptDigest: digestTokens(new Uint8Array(promptTokenCount).fill(97)),
    maxTokens,
    kvTransferParams: null,
    receivedAtMs: 0,
  }
  const request = new EngineRequest(input, 0, () => new Uint8Array())
  for (let index = 0; index < output; index++) request.appendToken(65)
  if (output > 0) request.digestedCount = promptTokenCount
  return request
}

function readsOf(request: EngineRequest, start: number, end: number): string {
  const { written } = planReads({ request, start, end, newBlocks: [] })
  return written.map((range) => `${range.start}-${range.end}`).join(' ')
}

describe('a decode step', () => {
  it('reads the newest slot, and a rotating share of the others', () => {
    expect(readsOf(requestWith(100, 1), 100, 101)).toBe('16-32 100-101')
    expect(readsOf(requestWith(100, 3), 102, 103)).toBe('48-64 102-103')
    expect(readsOf(requestWith(100, 9), 108, 109)).toBe('108-109')
  })

  it('reads the newest slot once when its turn has come too', () => {
    expect(readsOf(requestWith(100, 6), 105, 106)).toBe('96-106')
  })

  it('reads every 64th group of a long request, and comes round', () => {
    expect(readsOf(requestWith(2_500, 2), 2_501, 2_502)).toBe('32-48 1056-1072 2080-2096 2501-2502')
    expect(readsOf(requestWith(100, 65), 164, 165)).toBe('16-32 164-165')
  })

  it('reads everything for the last token', () => {
    expect(readsOf(requestWith(100, 9, 10), 108, 109)).toBe('0-109')
  })

  it('after a preemption reads nothing until it says something new', () => {
    const request = requestWith(100, 5)
    request.resetComputed()
    expect(readsOf(request, 0, 60)).toBe('')
    expect(readsOf(request, 60, 105)).toBe('80-96 104-105')
  })
})

describe('a prefill', () => {
  it('reads each slot of the prompt once', () => {
    const request = requestWith(100, 0)
    expect(readsOf(request, 0, 40)).toBe('0-40')
    request.digestedCount = 40
    expect(readsOf(request, 40, 100)).toBe('40-100')
  })

  it('begins with the local hit that it didn\u2019t compute', () => {
    expect(readsOf(requestWith(100, 0), 48, 100)).toBe('0-100')
  })

  it('takes loaded slots as they came', () => {
    const request = requestWith(100, 0)
    request.unverifiedLoad = { start: 32, end: 100 }
    const plan = planReads({ request, start: 99, end: 100, newBlocks: [] })
    expect(plan.loaded).toMatchObject({ start: 32, end: 100 })
    expect(readsOf(request, 99, 100)).toBe('0-32')
    request.unverifiedLoad = { start: 32, end: 64 }
    expect(readsOf(request, 64, 100)).toBe('0-32 64-100')
  })
})
