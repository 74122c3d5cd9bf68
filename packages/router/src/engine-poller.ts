/**
 * Keeps the picture of one engine fresh: reads its description at start, looks again at a bounded
 * interval, sooner and with back-off while it is down. Notices a new incarnation. One per engine, started
 * and closed by startRouter; decides nothing about requests.
 */
import type { Clock, Logger, Timer } from '@kvferry/connector-api'
import {
  declaredPeer,
  parseEnginePeer,
  type DeclarableConnector,
  type EnginePeer,
} from './engine-peer.ts'
import type { Engine, EngineState } from './engine.ts'
import type { DeclaredPrefill } from './handoff.ts'
import { routerLimits, type PollIntervals } from './limits.ts'
import { RouterError } from './router-error.ts'

export interface PollerOptions {
  readonly engine: Engine
  readonly clock: Clock
  readonly logger: Logger
  readonly intervals: PollIntervals
  readonly pollMs: number
  /** For engines without `/kvferry/v1/peer`: what the operator says they run. */
  readonly declaredConnector: DeclarableConnector | null
}

/** Pure: the wait before the next look after `failureCount` failures in a row. */
export function nextPollMs(intervals: PollIntervals, failureCount: number): number {
  if (failureCount === 0) return intervals.upMs
  return Math.min(intervals.downMaxMs, intervals.downMs * 2 ** Math.min(failureCount - 1, 20))
}

export class EnginePoller {
  readonly #options: PollerOptions
  readonly #closing = new AbortController()
  #timer: Timer | null = null
  #running: Promise<void> | null = null
  #failureCount = 0
  /** Looks in a row that had no answer in time. */
  #lateCount = 0
  /** It said that it has no `/kvferry/v1/peer`. True until it has been down: another one may come back. */
  #isDeclared = false

  constructor(options: PollerOptions) {
    this.#options = options
    options.engine.onSuspect(() => {
      this.#failureCount = 1
      this.#schedule()
    })
  }

  /** Looks once and goes on by itself. Never rejects: what was found is in the engine's state. */
  poll(): Promise<void> {
    this.#running ??= this.#pollOnce().finally(() => {
      this.#running = null
      this.#schedule()
    })
    return this.#running
  }

  async close(): Promise<void> {
    this.#closing.abort()
    this.#timer?.stop()
    await this.#running
  }

  #schedule(): void {
    this.#timer?.stop()
    if (this.#closing.signal.aborted) return
    const waitMs = nextPollMs(this.#options.intervals, this.#failureCount)
    this.#timer = this.#options.clock.after(waitMs, () => void this.poll())
  }

  async #pollOnce(): Promise<void> {
    const { engine } = this.#options
    const before = engine.state
    let after: EngineState
    try {
      after = await this.#read()
      this.#lateCount = 0
    } catch (error) {
      after = this.#judgeFailure(before, error)
    }
    if (this.#closing.signal.aborted) return
    this.#failureCount = after.kind === 'up' ? 0 : this.#failureCount + 1
    if (after.kind === 'down') this.#isDeclared = false
    engine.setState(after)
    this.#report(before, after)
  }

  /** An engine that is late because it is busy is up: it answers others, or will at the next look. */
  #judgeFailure(before: EngineState, error: unknown): EngineState {
    const reason = error instanceof Error ? error.message : String(error)
    const isLate = error instanceof RouterError && error.code === 'ERR_KV_DEADLINE'
    if (!isLate || before.kind !== 'up') return { kind: 'down', reason }
    const { clock, engine, logger, pollMs } = this.#options
    this.#lateCount++
    const isAlive = clock.now() - engine.lastSignAt <= 2 * pollMs
    if (!isAlive && this.#lateCount >= routerLimits.lateLookCountMax)
      return { kind: 'down', reason }
    logger.warn('engine is slow to answer', { leg: engine.leg, url: engine.url, reason })
    return before
  }

  async #read(): Promise<EngineState> {
    // A question that an engine can't answer is a line in its log, at every look.
    return (this.#isDeclared ? null : await this.#readPeer()) ?? (await this.#readHealth())
  }

  /** null: a declared engine, which can't describe itself. */
  async #readPeer(): Promise<EngineState | null> {
    const { engine, declaredConnector } = this.#options
    const { status, text } = await engine.client.getText('/kvferry/v1/peer', this.#look)
    if (status === 200) {
      const peer = parseJsonPeer(text, engine.declared)
      if (peer?.state === 'serving') return { kind: 'up', peer }
      if (peer !== null) return { kind: 'down', reason: `it says that it is ${peer.state}` }
      return { kind: 'down', reason: 'its /kvferry/v1/peer answer is malformed' }
    }
    if (status !== 404) return { kind: 'down', reason: `/kvferry/v1/peer answered ${status}` }
    if (declaredConnector !== null) return null
    const remedy = 'pass --connector for engines that cannot describe themselves'
    return { kind: 'down', reason: `it has no /kvferry/v1/peer; ${remedy}` }
  }

  async #readHealth(): Promise<EngineState> {
    const { engine, declaredConnector } = this.#options
    const { status } = await engine.client.getText('/health', this.#look)
    if (status !== 200) return { kind: 'down', reason: `/health answered ${status}` }
    this.#isDeclared = true
    const role = engine.leg === 'prefill' ? 'producer' : 'consumer'
    // Only a declared engine gets here.
    return { kind: 'up', peer: declaredPeer(declaredConnector!, role, engine.declared) }
  }

  get #look(): { readonly deadlineMs: number; readonly signal: AbortSignal } {
    return { deadlineMs: this.#options.pollMs, signal: this.#closing.signal }
  }

  #report(before: EngineState, after: EngineState): void {
    const { engine, logger } = this.#options
    const fields = { leg: engine.leg, url: engine.url }
    if (after.kind === 'down' && (before.kind !== 'down' || before.reason !== after.reason)) {
      logger.warn('engine is down', { ...fields, reason: after.reason })
    }
    if (after.kind !== 'up') return
    const { engineId, incarnation, connector } = after.peer
    const isKnown = before.kind === 'up' && before.peer.incarnation === incarnation
    if (!isKnown) logger.info('engine is up', { ...fields, engineId, incarnation, connector })
  }
}

function parseJsonPeer(text: string, declared: DeclaredPrefill): EnginePeer | null {
  try {
    return parseEnginePeer(JSON.parse(text), declared)
  } catch {
    return null
  }
}
