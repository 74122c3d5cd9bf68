/**
 * How long the core's thread is inside connector hooks. Both halves are wrapped, so that the scheduler and
 * the step loop call hooks as if nothing measured them. A hook must not fail (contract): what it throws
 * goes through unchanged and ends the engine.
 */
import type { Clock, ConnectorScheduler } from '@kvferry/connector-api'
import type { EngineWorker } from './rank-group.ts'

export class HookStopwatch {
  readonly #clock: Clock
  #elapsedMs = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Milliseconds in hooks since the last `take`. */
  get elapsedMs(): number {
    return this.#elapsedMs
  }

  /** The same, and starts over. */
  take(): number {
    const elapsedMs = this.#elapsedMs
    this.#elapsedMs = 0
    return elapsedMs
  }

  time<T>(hook: () => T): T {
    const startMs = this.#clock.now()
    try {
      return hook()
    } finally {
      this.#elapsedMs += this.#clock.now() - startMs
    }
  }

  async timeAsync<T>(hook: () => Promise<T>): Promise<T> {
    const startMs = this.#clock.now()
    try {
      return await hook()
    } finally {
      this.#elapsedMs += this.#clock.now() - startMs
    }
  }
}

/** The scheduler half with every per-step hook measured. */
export function timeScheduler(inner: ConnectorScheduler, watch: HookStopwatch): ConnectorScheduler {
  return {
    setHandshakeMetadata: (byRank) => inner.setHandshakeMetadata(byRank),
    onNewRequest: (request) => watch.time(() => inner.onNewRequest(request)),
    getNumNewMatchedTokens: (request, computedTokenCount) =>
      watch.time(() => inner.getNumNewMatchedTokens(request, computedTokenCount)),
    updateStateAfterAlloc: (request, blocks, externalTokenCount) =>
      watch.time(() => inner.updateStateAfterAlloc(request, blocks, externalTokenCount)),
    buildConnectorMeta: (step) => watch.time(() => inner.buildConnectorMeta(step)),
    updateConnectorOutput: (output) => watch.time(() => inner.updateConnectorOutput(output)),
    requestFinished: (request, blocks) => watch.time(() => inner.requestFinished(request, blocks)),
    handoffUndelivered: (requestId) => watch.time(() => inner.handoffUndelivered?.(requestId)),
    hasPendingPushWork: () => inner.hasPendingPushWork(),
    hasPendingBlockFrees: () => inner.hasPendingBlockFrees(),
    shutdown: () => inner.shutdown(),
  }
}

/** The worker half with every per-step hook measured. */
export function timeWorker(inner: EngineWorker, watch: HookStopwatch): EngineWorker {
  return {
    handlePreemptions: (meta) => watch.timeAsync(() => inner.handlePreemptions(meta)),
    bindConnectorMetadata: (meta) => watch.time(() => inner.bindConnectorMetadata(meta)),
    waitForSave: (fences) => watch.time(() => inner.waitForSave(fences)),
    getTransferResults: (ended) => watch.time(() => inner.getTransferResults(ended)),
    getStats: () => watch.time(() => inner.getStats()),
    createFences: () => inner.createFences(),
    signalFences: (fences, inMs) => inner.signalFences(fences, inMs),
  }
}
