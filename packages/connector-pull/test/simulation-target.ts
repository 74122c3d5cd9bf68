/** How pull is simulated: short leases and deadlines, so that a run sees several of each. */
import { pull } from '../src/index.ts'

const options = { leaseDurationMs: 2_000, transferDeadlineMs: 500, handshakeTimeoutMs: 400 }

export const simulationTarget = {
  factory: pull,
  options,
  nextTurnOptions: { ...options, bidirectional: true, decoderBlocksTtlMs: 3_000 },
  stagingConfig: { bufferDevice: 'host' } as const,
  // Leases of requests that wait for room are renewed for ten times their length.
  boundMs: 60_000,
}
