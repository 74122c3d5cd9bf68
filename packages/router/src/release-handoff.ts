/**
 * Gives back handoffs that no decode engine took: the client left between the legs, or every decode engine
 * refused or was unreachable. Without it the prefill engine keeps the blocks to the end of the lease.
 *
 * The router tells a decode engine, not the prefill engine: only an authenticated peer may end a lease, and
 * the handoff's signature is checked there. Beside the request and never in its way. An attempt that fails is
 * repeated, at another decode engine where there is one, within bounds on attempts, time and number; beyond
 * them (no decode engine comes back, or none has the endpoint, as plain vLLM), the lease's end does the same
 * later. To say it twice is harmless: the lease is over, or is nobody's.
 */
import type { Instant, KvTransferParams } from '@kvferry/connector-api'
import type { DispatchContext } from './dispatch.ts'
import type { EnginePeer } from './engine-peer.ts'
import type { Engine } from './engine.ts'
import { routerLimits } from './limits.ts'
import { afterAttempt, attemptDeadlineMs, type AttemptEnd } from './release-attempts.ts'

export type ReleaseOutcome = 'sent' | 'failed' | 'dropped'

const path = '/kvferry/v1/release'

/** "Not now": as little of a refusal as a failure is. */
const isPassing = (status: number): boolean => status === 408 || status === 429 || status >= 500

/** One handoff on its way back. */
class Release {
  readonly #context: DispatchContext
  readonly #prefill: EnginePeer
  readonly #handoff: KvTransferParams
  readonly startedAt: Instant
  /** In this round: the others are asked first. */
  readonly #asked = new Set<Engine>()
  readonly #refusedBy = new Set<Engine>()
  #refusal: string | null = null

  constructor(context: DispatchContext, prefill: EnginePeer, handoff: KvTransferParams) {
    this.#context = context
    this.#prefill = prefill
    this.#handoff = handoff
    this.startedAt = context.scope.clock.now()
  }

  /** Never rejects. */
  async attempt(): Promise<AttemptEnd> {
    let engine: Engine
    try {
      engine = this.#choose()
    } catch (error) {
      const refusal = this.#refusal
      return { kind: 'nobody', isForGood: refusal !== null, reason: refusal ?? reasonOf(error) }
    }
    this.#asked.add(engine)
    try {
      const status = await this.#send(engine)
      if (status === 202) return { kind: 'taken' }
      const reason = `${engine.url}${path} answered ${status}`
      if (isPassing(status)) return { kind: 'failed', reason }
      this.#refusedBy.add(engine)
      this.#refusal = reason
      return { kind: 'refused', reason }
    } catch (error) {
      return { kind: 'failed', reason: `${engine.url}${path}: ${reasonOf(error)}` }
    }
  }

  /** @throws RouterError where no decode engine can be asked now. */
  #choose(): Engine {
    const { fleet } = this.#context
    try {
      return fleet.chooseDecode(this.#prefill, new Set([...this.#refusedBy, ...this.#asked]))
    } catch {
      this.#asked.clear()
      return fleet.chooseDecode(this.#prefill, this.#refusedBy)
    }
  }

  async #send({ client }: Engine): Promise<number> {
    const { clock } = this.#context.scope
    const { pollMs } = this.#context.deadlines
    const deadlineMs = attemptDeadlineMs(this.startedAt, clock.now(), pollMs)
    const body = JSON.stringify({ kv_transfer_params: this.#handoff })
    // Not the request's signal: the request is over.
    const controller = new AbortController()
    const late = new Error(`no answer within ${Math.round(deadlineMs)} ms`)
    const timer = clock.after(deadlineMs, () => controller.abort(late))
    try {
      const { signal } = controller
      const answer = await client.sendAside({ method: 'POST', path, body, signal })
      await answer.body.dump()
      return answer.statusCode
    } finally {
      timer.stop()
    }
  }
}

const reasonOf = (error: unknown): string =>
  error instanceof Error ? error.message : String(error)

/** One per router: what it is giving back now. */
export class HandoffReleases {
  readonly #open = new Set<Promise<void>>()
  /** Of those that wait for another attempt. */
  readonly #wakes = new Set<() => void>()
  #isEnding = false

  /** Returns at once and never throws; counted in `kv_router_releases_total`. */
  release(context: DispatchContext, prefill: EnginePeer, handoff: KvTransferParams): void {
    if (this.#open.size >= routerLimits.releasesOpenMax) {
      context.metrics.released('dropped')
      return
    }
    const release = new Release(context, prefill, handoff)
    const delivery = this.#deliver(context, release).finally(() => this.#open.delete(delivery))
    this.#open.add(delivery)
  }

  /** What waits gets a last attempt. Resolves when none is under way; each has a deadline. */
  async end(): Promise<void> {
    this.#isEnding = true
    for (const wake of this.#wakes) wake()
    await Promise.all(this.#open)
  }

  async #deliver(context: DispatchContext, release: Release): Promise<void> {
    const { logger, metrics, random, scope } = context
    const { startedAt } = release
    for (let attemptCount = 1; ; attemptCount++) {
      const isLast = this.#isEnding
      const end = await release.attempt()
      const progress = { startedAt, attemptCount, isLast }
      const next = afterAttempt(end, progress, scope.clock.now(), random.uniform())
      if (next.kind === 'sent') return metrics.released('sent')
      if (next.kind === 'give-up') {
        metrics.released('failed')
        const fields = { requestId: scope.requestId, attempts: attemptCount, reason: next.reason }
        logger.warn('a handoff was not given back: its lease ends by itself', fields)
        return
      }
      metrics.releaseRetried()
      await this.#wait(context, next.waitMs)
    }
  }

  async #wait({ scope }: DispatchContext, waitMs: number): Promise<void> {
    if (this.#isEnding || waitMs === 0) return
    let wake = (): void => {}
    const woken = new Promise<void>((resolve) => (wake = resolve))
    const timer = scope.clock.after(waitMs, wake)
    this.#wakes.add(wake)
    await woken
    timer.stop()
    this.#wakes.delete(wake)
  }
}
