/** How xavier is simulated: short lives of tickets and deadlines, so that a run sees several of each. */
import { xavier } from '../src/index.ts'

export const simulationTarget = {
  factory: xavier,
  options: {
    unclaimedTicketMs: 2_000,
    claimedTicketMs: 4_000,
    transferDeadlineMs: 500,
    handshakeTimeoutMs: 400,
    loadTimeoutMs: 6_000,
  },
  // What waits on a consumer for room is kept for ten leases.
  boundMs: 60_000,
}

/** How loads end in some of the seeds. */
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
