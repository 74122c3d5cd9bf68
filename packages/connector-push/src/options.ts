/**
 * The connector's `options`: defaults, validation, and the answer to a key that does not exist. Checked
 * once, when the engine starts.
 */
import { limits } from '@kvferry/connector-api'
import { readLeaseOptions, readOptions } from '@kvferry/connector-api/protocol'
import { pushLimits } from './limits.ts'

export interface PushOptions {
  /** Blocks leave as chunks of the prompt are computed, not only once all of it is. */
  readonly progressive: boolean
  /** How long the producer keeps blocks for a consumer that has not registered, and how long one renewal lasts. */
  readonly leaseDurationMs: number
  /** A WRITE without final status after this counts as overdue; its blocks stay where they are. */
  readonly transferDeadlineMs: number
  /** Connect, exchange, add the peer. */
  readonly handshakeTimeoutMs: number
  /** How long the consumer waits for its blocks before it withdraws and computes them itself. */
  readonly registrationTimeoutMs: number
  /** Fewer missing tokens than this are computed instead of loaded. */
  readonly recomputeThreshold: number
}

/** What vLLM calls them in `kv_connector_extra_config`. */
const foreignNames: ReadonlyMap<string, string> = new Map([
  ['kv_lease_duration', 'leaseDurationMs'],
  ['kv_recompute_threshold', 'recomputeThreshold'],
  ['push_registration_timeout', 'registrationTimeoutMs'],
])

/** @throws ConnectorError ERR_KV_CONFIG naming field, value and remedy of everything that is wrong. */
export function parsePushOptions(options: Readonly<Record<string, unknown>>): PushOptions {
  return readOptions<PushOptions>(options, foreignNames, (fields) => {
    const lease = readLeaseOptions(fields)
    return {
      progressive: fields.flag('progressive'),
      ...lease,
      handshakeTimeoutMs: fields.integer('handshakeTimeoutMs', limits.handshakeTimeoutMs, {
        min: 1,
        max: 600_000,
      }),
      registrationTimeoutMs: fields.integer(
        'registrationTimeoutMs',
        pushLimits.registrationTimeoutMs,
        { min: 1, max: 3_600_000 },
      ),
      recomputeThreshold: fields.integer('recomputeThreshold', 0, { min: 0, max: 1_048_576 }),
    }
  })
}
