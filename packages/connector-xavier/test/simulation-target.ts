/** How xavier is simulated: short lives of tickets and deadlines, so that a run sees several of each; small tiers. */
import type { HistoryProvider } from '@kvferry/connector-api'
import type { World } from '@kvferry/connector-api/testing'
import { xavier } from '../src/index.ts'
import { historyOver, keeping } from './fixtures/kept.ts'

/** Copies that take up to 30 ms, and fail now and then. */
function unreliableHistory(world: World): HistoryProvider {
  const { kernels } = world.fabric
  const random = world.random.fork('history')
  const relayout: typeof kernels.relayout = async (...copy) => {
    const copyMs = random.integer(30)
    await new Promise<void>((resolve) => void world.clock.after(copyMs, resolve))
    if (random.chance(0.1)) throw new Error('the copy failed')
    return kernels.relayout(...copy)
  }
  return historyOver(world, { ...kernels, relayout })
}

export const simulationTarget = {
  factory: xavier,
  options: {
    unclaimedTicketMs: 2_000,
    claimedTicketMs: 4_000,
    transferDeadlineMs: 500,
    handshakeTimeoutMs: 400,
    loadTimeoutMs: 6_000,
    ...keeping(),
  },
  history: unreliableHistory,
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
  'restored',
  'restore: ERR_KV_TRANSFER_FAILED',
] as const
