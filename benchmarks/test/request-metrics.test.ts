import { describe, expect, it } from 'vitest'
import type { EngineTimings, LoadTimings } from '@kvferry/reference-engine'
import type { RequestRecord } from '../src/compare/load-client.ts'
import { breakdownParts, metricsOf } from '../src/compare/request-metrics.ts'

const load: LoadTimings = {
  outcome: 'loaded',
  allocAtMs: 1_042,
  bindAtMs: 1_043,
  handshakeMs: 2,
  queuedUs: 500,
  prepareUs: 50,
  postUs: 250,
  wireUs: 1_250,
  completeAtMs: 1_048,
  postedAtMs: null,
  bytes: 4_096,
  lastBytes: 1_024,
  descriptorsBeforeMerge: 8,
  descriptorsAfterMerge: 2,
  blockedUs: 900,
  blockedCopyUs: 200,
  errorCode: null,
}

const timings = (overrides: Partial<EngineTimings>): EngineTimings => ({
  engineId: 'e',
  requestId: 'r',
  receivedAtMs: 1_010,
  queuedAtMs: 1_011,
  scheduledAtMs: 1_015,
  prefillEndAtMs: 1_035,
  load: null,
  loadReadyAtMs: null,
  firstTokenAtMs: 1_036,
  lastTokenAtMs: 1_036,
  recomputed: false,
  preemptions: 0,
  cachedTokens: 0,
  verification: { blocksLoaded: 0, blocksVerified: 0, mismatchedBlocks: 0 },
  ...overrides,
})

const record = (overrides: Partial<RequestRecord> = {}): RequestRecord => ({
  planned: {
    index: 0,
    phase: 'measured',
    atMs: 0,
    prompt: 'x'.repeat(32),
    outputTokens: 4,
    isStream: true,
  },
  scheduledAtMs: 1_000,
  sentAtMs: 1_004,
  tokenAtMs: [1_060, 1_068, 1_076, 1_090],
  outputTokens: 4,
  lastTokenAtMs: 1_090,
  text: 'abcd',
  error: null,
  decode: timings({ receivedAtMs: 1_040, prefillEndAtMs: null, load, loadReadyAtMs: 1_050 }),
  routed: {
    router: {
      receivedAtMs: 1_005,
      prefillSentAtMs: 1_006,
      prefillAnsweredAtMs: 1_038,
      decodeSentAtMs: 1_039,
    },
    prefill: timings({}),
  },
  ...overrides,
})

describe('metricsOf', () => {
  it('counts from the planned moment, not from the send', () => {
    expect(metricsOf(record())).toMatchObject({
      ttftMs: 60,
      ttftFromSendMs: 56,
      e2elMs: 90,
      clientQueueMs: 4,
      tpotMs: 10,
      itlMs: [8, 8, 14],
    })
  })

  it('measures the load between the engines', () => {
    expect(metricsOf(record())?.load).toEqual({
      criticalPathMs: 13,
      pathLessWireMs: 11.75,
      firstPostMs: 10.5,
      kvWaitMs: 6,
      postUs: 250,
      wireMs: 1.25,
      bytes: 4_096,
      criticalBytes: 1_024,
      blockedUs: 900,
      blockedDescriptorsUs: 700,
      blockedCopyUs: 200,
      descriptorsBeforeMerge: 8,
      descriptorsAfterMerge: 2,
    })
  })

  it('says how long before the end of the prefill the first chunk left', () => {
    const chunked = { ...load, postedAtMs: 1_030, completeAtMs: 1_037 }
    const decode = timings({ prefillEndAtMs: null, load: chunked, loadReadyAtMs: 1_050 })
    expect(metricsOf(record({ decode }))?.load?.firstPostMs).toBe(-5)
  })

  it('has parts that touch, so they add up to TTFT', () => {
    const metrics = metricsOf(record())
    expect(metrics?.breakdown).toEqual({
      queue: 15,
      prefill: 20,
      handOver: 5,
      alloc: 2,
      dispatch: 3.5,
      post: 0.25,
      wire: 2.25,
      stepBoundary: 2,
      firstToken: 10,
    })
    const parts = breakdownParts.map((part) => metrics?.breakdown?.[part] ?? 0)
    expect(parts.reduce((sum, part) => sum + part, 0)).toBeCloseTo(metrics?.ttftMs ?? 0)
  })

  it('counts only what each part added where D was asked while P computed (push)', () => {
    const early = { ...load, allocAtMs: 1_012, bindAtMs: 1_012, completeAtMs: 1_039 }
    const posted = { ...early, handshakeMs: 0, queuedUs: 23_500, postUs: 500 }
    const decode = timings({ receivedAtMs: 1_007, prefillEndAtMs: null, load: posted })
    const metrics = metricsOf(record({ decode: { ...decode, loadReadyAtMs: 1_041 } }))
    expect(metrics?.breakdown).toEqual({
      queue: 15,
      prefill: 20,
      handOver: 0,
      alloc: 0,
      dispatch: 0.5,
      post: 0.5,
      wire: 3,
      stepBoundary: 2,
      firstToken: 19,
    })
    const parts = Object.values(metrics?.breakdown ?? {})
    expect(parts.reduce((sum, part) => sum + part, 0)).toBe(metrics?.ttftMs)
  })

  it('has three parts for the oracle, which add up too', () => {
    const metrics = metricsOf(record({ routed: null, decode: timings({}) }))
    expect(metrics?.breakdown).toEqual({ queue: 15, prefill: 20, firstToken: 25 })
    expect(metrics?.load).toBeNull()
  })

  it('has neither TTFT nor TPOT nor parts for an answer that is not streamed', () => {
    const { planned } = record()
    const metrics = metricsOf(
      record({ planned: { ...planned, isStream: false }, tokenAtMs: [1_090] }),
    )
    expect(metrics).toMatchObject({ ttftMs: null, tpotMs: null, itlMs: [], e2elMs: 90 })
    expect(metrics?.breakdown).toBeNull()
    expect(metrics?.load?.criticalPathMs).toBe(13)
  })

  it('has no TPOT for a single token', () => {
    expect(metricsOf(record({ tokenAtMs: [1_090], outputTokens: 1 }))).toMatchObject({
      ttftMs: 90,
      tpotMs: null,
    })
  })

  it('takes no load times from a load that failed', () => {
    const failed = { ...load, outcome: 'failed' as const, errorCode: 'ERR_KV_DEADLINE' }
    const metrics = metricsOf(record({ decode: timings({ load: failed, recomputed: true }) }))
    expect(metrics?.load).toBeNull()
    expect(metrics?.breakdown).toBeNull()
    expect(metrics?.ttftMs).toBe(60)
  })

  it('takes nothing from a request that failed', () => {
    expect(metricsOf(record({ error: 'HTTP 500' }))).toBeNull()
  })
})
