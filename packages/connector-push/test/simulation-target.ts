/**
 * How push is simulated: short leases and deadlines, so that a run sees several of each. Twice: blocks leave
 * when all of a prompt is computed, and chunk by chunk.
 */
import { push } from '../src/index.ts'

const options = {
  leaseDurationMs: 2_000,
  transferDeadlineMs: 500,
  handshakeTimeoutMs: 400,
  registrationTimeoutMs: 6_000,
}

export const simulationTarget = {
  factory: push,
  options,
  // What waits on a consumer for room is kept for ten leases.
  boundMs: 60_000,
}

export const progressiveTarget = {
  ...simulationTarget,
  options: { ...options, progressive: true },
}

/** How loads end in some of the seeds of each. */
export const endings = [
  'loaded',
  'computed',
  'ERR_KV_TRANSFER_FAILED',
  'ERR_KV_PEER_UNAVAILABLE',
  'ERR_KV_LEASE_EXPIRED',
  'ERR_KV_DEADLINE',
  'ERR_KV_CLOSED',
  'ERR_KV_UNAUTHORISED',
  'ERR_NIXL',
] as const
