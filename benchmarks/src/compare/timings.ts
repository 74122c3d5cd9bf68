/**
 * What engines and the router report about one request (header `X-Kvferry-Timings: 1`) and about
 * themselves (`GET /kvferry/v1/stats`), as far as the harness reads it. All times are milliseconds of
 * the system-wide monotonic clock, so times taken in different processes of one machine compare.
 */
import type { Distribution } from '../lib/distribution.ts'

export interface LoadTimings {
  readonly outcome: 'loaded' | 'failed'
  readonly allocAtMs: number
  /** The rest is null or 0 when the load failed before it got there. */
  readonly bindAtMs: number | null
  readonly handshakeMs: number | null
  readonly queuedUs: number | null
  readonly postUs: number | null
  readonly wireUs: number | null
  readonly completeAtMs: number | null
  readonly bytes: number
  readonly descriptorsBeforeMerge: number
  readonly descriptorsAfterMerge: number
  readonly errorCode: string | null
}

export interface EngineTimings {
  readonly engineId: string
  readonly requestId: string
  readonly receivedAtMs: number
  readonly queuedAtMs: number
  readonly scheduledAtMs: number
  readonly prefillEndAtMs: number | null
  readonly load: LoadTimings | null
  readonly loadReadyAtMs: number | null
  readonly firstTokenAtMs: number
  readonly lastTokenAtMs: number
  readonly recomputed: boolean
  readonly preemptions: number
  readonly cachedTokens: number
  readonly verification: Verification
}

export interface Verification {
  readonly blocksLoaded: number
  readonly blocksVerified: number
  readonly mismatchedBlocks: number
}

export interface RouterTimings {
  readonly router: {
    readonly receivedAtMs: number
    readonly prefillSentAtMs: number | null
    readonly prefillAnsweredAtMs: number | null
    readonly decodeSentAtMs: number | null
  }
  readonly prefill: EngineTimings | null
}

export interface EngineStats {
  readonly engineId: string
  readonly role: string
  readonly connector: string | null
  readonly agent: 'nixl' | 'memory' | null
  readonly transports: readonly string[]
  readonly hooks: string
  readonly kvScale: number
  readonly steps: number
  readonly workMs: number
  readonly modelledMs: number
  readonly overrunMs: number
  readonly timerLateMs: number
  readonly hookUsPerStep: Distribution
  readonly stepStallMs: number
  readonly cpuSeconds: number
  readonly rssBytes: number
  readonly blocks: {
    readonly total: number
    readonly free: number
    readonly owned: number
    readonly cached: number
    readonly leased: number
    readonly quarantined: number
  }
  readonly blockSecondsHeld: number
  readonly verification: Verification
  readonly agentCounters: Readonly<Record<string, number>> | null
  readonly connectorCounters: Readonly<Record<string, number>> | null
  readonly memoryBytes: Readonly<Record<string, number>>
}
