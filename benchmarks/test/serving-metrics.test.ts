/** The numbers under vLLM's names follow vLLM's definitions. */
import { describe, expect, it } from 'vitest'
import { noReply, type RequestRecord } from '../src/compare/load-client.ts'
import {
  detailedMetrics,
  interpolatedPercentile,
  servingMetrics,
} from '../src/sweep/serving-metrics.ts'

const record = (
  index: number,
  sentAtMs: number,
  tokenAtMs: readonly number[],
  more: Partial<RequestRecord> = {},
): RequestRecord => ({
  planned: {
    index,
    phase: 'measured',
    atMs: 0,
    prompt: 'x'.repeat(8),
    outputTokens: tokenAtMs.length,
    isStream: true,
  },
  // Planned earlier than sent: vLLM's times don't see it.
  scheduledAtMs: sentAtMs - 50,
  sentAtMs,
  tokenAtMs,
  lastTokenAtMs: tokenAtMs.at(-1) ?? null,
  text: 'y'.repeat(tokenAtMs.length),
  outputTokens: tokenAtMs.length,
  error: null,
  decode: null,
  routed: null,
  ...more,
})

const measured = {
  records: [
    record(0, 1_000, [1_100, 1_110, 1_120]),
    record(1, 1_500, [1_700, 1_720, 1_760]),
    record(2, 1_600, [], { ...noReply, error: 'HTTP 500' }),
  ],
  startedAtMs: 1_000,
  endedAtMs: 3_000,
  peakConcurrency: 2,
}

describe('serving metrics', () => {
  it('count from the send, over requests that completed', () => {
    expect(servingMetrics(measured)).toMatchObject({
      duration: 2,
      completed: 2,
      failed: 1,
      total_input_tokens: 16,
      total_output_tokens: 6,
      request_throughput: 1,
      output_throughput: 3,
      total_token_throughput: 11,
      max_output_tokens_per_s: 6,
      max_concurrent_requests: 2,
      mean_ttft_ms: 150,
      median_ttft_ms: 150,
      std_ttft_ms: 50,
      p99_ttft_ms: 199,
      mean_tpot_ms: 20,
      mean_itl_ms: 20,
      median_itl_ms: 15,
      mean_e2el_ms: 190,
    })
  })

  it('are zero, not missing, where nothing completed', () => {
    const nothing = { ...measured, records: measured.records.slice(2) }
    expect(servingMetrics(nothing)).toMatchObject({ completed: 0, mean_ttft_ms: 0, p99_itl_ms: 0 })
  })

  it('take the tokens that a tokenizer counted, not the events that brought them', () => {
    const records = [record(0, 1_000, [1_100, 1_200], { outputTokens: 5 })]
    expect(servingMetrics({ ...measured, records })).toMatchObject({
      total_output_tokens: 5,
      mean_tpot_ms: 25,
      mean_itl_ms: 100,
    })
  })

  it('list each request in seconds on demand', () => {
    expect(detailedMetrics(measured)).toMatchObject({
      ttfts: [0.1, 0.2, 0],
      output_lens: [3, 3, 0],
      start_times: [0, 0.5, 0.6],
      errors: ['', '', 'HTTP 500'],
    })
  })

  it('interpolate percentiles between ranks', () => {
    expect(interpolatedPercentile([4, 1, 3, 2], 50)).toBe(2.5)
    expect(interpolatedPercentile([10], 99)).toBe(10)
  })
})
