/** How pull is simulated: short leases and deadlines, so that a run sees several of each. */
import { pull } from '../src/index.ts'

export const simulationTarget = {
  factory: pull,
  options: { leaseDurationMs: 2_000, transferDeadlineMs: 500, handshakeTimeoutMs: 400 },
  boundMs: 20_000,
}
