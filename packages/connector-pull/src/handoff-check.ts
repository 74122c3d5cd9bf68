/**
 * What the consumer's worker half checks of a handoff once it knows the producer's key and clock, before
 * anything is read or given back on its word.
 */
import {
  ConnectorError,
  type AnyConnectorError,
  type Instant,
  type WorkerComponents,
} from '@kvferry/connector-api'
import type { PeerLink } from './connection-state.ts'
import { isHandoffSigned } from './handoff-signature.ts'
import { pullLimits } from './limits.ts'
import type { Handoff } from './metadata.ts'
import type { PullCounters } from './pull-counters.ts'

/** Handoffs that were found to be signed, by the keys of their producer's ranks: asked again at every use. */
const signed = new WeakMap<Handoff, WeakSet<Uint8Array>>()

/** ERR_KV_UNAUTHORISED when that rank of that life of the producer did not write it, or another wrote into it. */
export function forgeryError(handoff: Handoff, link: PeerLink): AnyConnectorError | null {
  const { handoffKey, rank } = link
  const known = signed.get(handoff)
  if (known?.has(handoffKey)) return null
  if (isHandoffSigned(handoff, handoffKey, rank)) {
    signed.set(handoff, (known ?? new WeakSet()).add(handoffKey))
    return null
  }
  const reason = `the handoff is not signed by ${handoff.remote.engineId}`
  return new ConnectorError('ERR_KV_UNAUTHORISED', reason, { reason })
}

/**
 * ERR_KV_LEASE_EXPIRED when the lease is over for certain and nobody renewed it; of a decode engine's also
 * when it nearly is, since that is not renewed from the start. That it is not over here proves nothing: the
 * producer is asked for every load.
 */
export function expiryError(
  { isReturn, leaseDeadlineMs, remote }: Handoff,
  link: PeerLink,
  now: Instant,
): AnyConnectorError | null {
  const leftMs = link.clock.longestUntil(leaseDeadlineMs, now)
  if (leftMs > (isReturn ? pullLimits.returnMarginMs : 0)) return null
  const { requestId } = remote
  const message =
    leftMs > 0
      ? `the lease of the handoff ends in ${Math.round(leftMs)} ms`
      : `the lease of the handoff ended ${Math.round(-leftMs)} ms ago`
  return new ConnectorError('ERR_KV_LEASE_EXPIRED', message, { requestId })
}

/** One that somebody made up or changed was refused. */
export function countForgery({ metrics }: WorkerComponents, counters: PullCounters): void {
  counters.add('messagesRefused')
  metrics.add('kv_messages_refused_total', 1, { where: 'handoff' })
}
