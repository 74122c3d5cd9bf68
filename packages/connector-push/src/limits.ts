/**
 * The bounds that only the push protocol has; everything shared is in `limits` and `protocolLimits` of
 * connector-api. Each has a name, a unit and a reason; their relations are asserted when this module loads.
 */
import { assert, limits } from '@kvferry/connector-api'

export const pushLimits = {
  /** How long a consumer waits for its blocks from its registration on. vLLM's `push_registration_timeout`. */
  registrationTimeoutMs: 480_000,
  /**
   * How long a producer remembers a transfer that is over, so that a registration which comes too late is
   * refused at once instead of waiting for a prefill that never comes.
   */
  rendezvousRetentionMs: 60_000,
  /** How long a preempted request's blocks are kept for WRITEs that still read them. */
  preemptionWaitMs: 5_000,
  /** How many leases long a registration lives without a sign of its consumer. */
  silentLeaseCountMax: 2,
} as const

assert(
  pushLimits.rendezvousRetentionMs >= limits.handshakeTimeoutMs,
  'a transfer is forgotten before a registration that waits for its handshake can arrive',
)
