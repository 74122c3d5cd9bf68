/**
 * What the engine measured about one request, for callers that asked for it. All times are absolute
 * milliseconds of the system-wide monotonic clock, so that those of two engines can be compared.
 */
import type { EngineId, LoadSample } from '@kvferry/connector-api'
import type { EngineRequest } from './request-state.ts'

export type LoadTimings = Omit<LoadSample, 'requestId'> & {
  readonly outcome: 'loaded' | 'failed'
  readonly allocAtMs: number
  readonly errorCode: string | null
}

export interface EngineTimings {
  readonly engineId: string
  /** The engine's own id of the request. */
  readonly requestId: string
  /** Body read and valid. */
  readonly receivedAtMs: number
  /** In the scheduler's queue. */
  readonly queuedAtMs: number
  /** Blocks allocated for the first time. */
  readonly scheduledAtMs: number
  /** Modelled end of the step that finished the prompt here; null when the prompt was loaded. */
  readonly prefillEndAtMs: number | null
  readonly load: LoadTimings | null
  /** The engine learned that the load ended. */
  readonly loadReadyAtMs: number | null
  readonly firstTokenAtMs: number
  readonly lastTokenAtMs: number
  readonly recomputed: boolean
  readonly preemptions: number
  /** Prompt tokens found in the engine's own prefix cache. */
  readonly cachedTokens: number
  readonly verification: {
    readonly blocksLoaded: number
    readonly blocksVerified: number
    readonly mismatchedBlocks: number
  }
}

/** For an ended request. Moments that it did not reach are those of its arrival in the queue. */
export function describeTimings(engineId: EngineId, request: EngineRequest): EngineTimings {
  const scheduledAtMs = request.scheduledAtMs ?? request.queuedAtMs
  return {
    engineId,
    requestId: request.requestId,
    receivedAtMs: request.receivedAtMs,
    queuedAtMs: request.queuedAtMs,
    scheduledAtMs,
    prefillEndAtMs: request.prefillEndAtMs,
    load: describeLoad(request),
    loadReadyAtMs: request.loadReadyAtMs,
    firstTokenAtMs: request.firstTokenAtMs ?? scheduledAtMs,
    lastTokenAtMs: request.lastTokenAtMs ?? scheduledAtMs,
    recomputed: request.isRecomputed,
    preemptions: request.preemptionCount,
    cachedTokens: request.localHitTokenCount,
    verification: {
      ...request.verification,
      mismatchedBlocks: request.mismatchedBlockIndexes.size,
    },
  }
}

function describeLoad(request: EngineRequest): LoadTimings | null {
  const { load } = request
  if (load === null || load.outcome === null) return null
  const { sample } = load
  const readyAtMs = request.loadReadyAtMs ?? load.allocAtMs
  return {
    outcome: load.outcome,
    allocAtMs: load.allocAtMs,
    // A load that failed before anything was posted has no sample.
    bindAtMs: sample?.bindAtMs ?? readyAtMs,
    handshakeMs: sample?.handshakeMs ?? 0,
    queuedUs: sample?.queuedUs ?? 0,
    prepareUs: sample?.prepareUs ?? 0,
    postUs: sample?.postUs ?? 0,
    wireUs: sample?.wireUs ?? 0,
    completeAtMs: sample?.completeAtMs ?? readyAtMs,
    postedAtMs: sample?.postedAtMs ?? null,
    bytes: sample?.bytes ?? 0,
    lastBytes: sample?.lastBytes ?? 0,
    blockedUs: sample?.blockedUs ?? 0,
    blockedCopyUs: sample?.blockedCopyUs ?? 0,
    descriptorsBeforeMerge: sample?.descriptorsBeforeMerge ?? 0,
    descriptorsAfterMerge: sample?.descriptorsAfterMerge ?? 0,
    errorCode: load.errorCode,
  }
}
