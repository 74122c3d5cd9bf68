/**
 * Gives back a handoff that no decode engine took: the client left between the legs, or every decode engine
 * refused or was unreachable. Without it the prefill engine keeps the blocks to the end of the lease.
 *
 * The router tells a decode engine, not the prefill engine: only an authenticated peer may end a lease, and
 * the handoff's signature is checked there. Best effort, beside the request and never in its way; where it
 * fails (no decode engine, or one without the endpoint, as plain vLLM), the lease's end does the same later.
 */
import type { KvTransferParams } from '@kvferry/connector-api'
import type { DispatchContext } from './dispatch.ts'
import type { EnginePeer } from './engine-peer.ts'
import { routerLimits } from './limits.ts'

export type ReleaseOutcome = 'sent' | 'failed' | 'dropped'

const path = '/kvferry/v1/release'

/** One per router: what it is giving back now. */
export class HandoffReleases {
  readonly #open = new Set<Promise<void>>()

  /** Returns at once and never throws; counted in `kv_router_releases_total`. */
  release(context: DispatchContext, prefill: EnginePeer, handoff: KvTransferParams): void {
    if (this.#open.size >= routerLimits.releasesInFlightMax) {
      context.metrics.released('dropped')
      return
    }
    const release = deliver(context, prefill, handoff).finally(() => this.#open.delete(release))
    this.#open.add(release)
  }

  /** Resolves when none is under way; each has a deadline. */
  async settled(): Promise<void> {
    await Promise.all(this.#open)
  }
}

async function deliver(
  context: DispatchContext,
  prefill: EnginePeer,
  handoff: KvTransferParams,
): Promise<void> {
  const { logger, metrics, scope } = context
  try {
    await send(context, prefill, handoff)
    metrics.released('sent')
  } catch (error) {
    metrics.released('failed')
    const reason = error instanceof Error ? error.message : String(error)
    const message = 'a handoff was not given back: its lease ends by itself'
    logger.warn(message, { requestId: scope.requestId, reason })
  }
}

async function send(
  { fleet, deadlines, scope }: DispatchContext,
  prefill: EnginePeer,
  handoff: KvTransferParams,
): Promise<void> {
  const { client } = fleet.chooseDecode(prefill, new Set())
  const body = JSON.stringify({ kv_transfer_params: handoff })
  // Not the request's signal: the request is over.
  const controller = new AbortController()
  const late = new Error(`no answer within ${deadlines.pollMs} ms`)
  const timer = scope.clock.after(deadlines.pollMs, () => controller.abort(late))
  try {
    const answer = await client.send({ method: 'POST', path, body, signal: controller.signal })
    await answer.body.dump()
    if (answer.statusCode !== 202)
      throw new Error(`${client.url}${path} answered ${answer.statusCode}`)
  } finally {
    timer.stop()
  }
}
