/**
 * The connector's `options`: defaults, validation, and the answer to a key that does not exist (the
 * nearest one that does, or our name for a setting of vLLM's). Checked once, when the engine starts.
 */
import { limits } from '@kvferry/connector-api'
import { leaseRange, readLeaseOptions, readOptions } from '@kvferry/connector-api/protocol'
import { pullLimits } from './limits.ts'

export interface PullOptions {
  /** `background`: READs are posted by the agent's thread. `inline`: the step waits until they are posted. */
  readonly posting: 'background' | 'inline'
  /** How long the producer keeps blocks for a reader, and how long one renewal lasts. */
  readonly leaseDurationMs: number
  /** A READ without final status after this counts as overdue; its request goes on waiting. */
  readonly transferDeadlineMs: number
  /** Connect, exchange, add the peer. */
  readonly handshakeTimeoutMs: number
  /** Fewer missing tokens than this are computed instead of loaded. */
  readonly recomputeThreshold: number
  /** A decode engine keeps its blocks for the conversation's next turn; a prefill engine takes them. */
  readonly bidirectional: boolean
  /** How long a decode engine keeps them. */
  readonly decoderBlocksTtlMs: number
}

/** vLLM's `kv_connector_extra_config` keys that pull has under another name. */
const foreignNames: ReadonlyMap<string, string> = new Map([
  ['kv_lease_duration', 'leaseDurationMs'],
  ['kv_recompute_threshold', 'recomputeThreshold'],
  ['bidirectional_kv_xfer', 'bidirectional'],
  ['decoder_kv_blocks_ttl', 'decoderBlocksTtlMs'],
])

/** @throws ConnectorError ERR_KV_CONFIG naming field, value and remedy of everything that is wrong. */
export function parsePullOptions(options: Readonly<Record<string, unknown>>): PullOptions {
  return readOptions<PullOptions>(options, foreignNames, (fields) => {
    const lease = readLeaseOptions(fields)
    return {
      posting: fields.choice('posting', ['background', 'inline']),
      ...lease,
      handshakeTimeoutMs: fields.integer('handshakeTimeoutMs', limits.handshakeTimeoutMs, {
        min: 1,
        max: 600_000,
      }),
      recomputeThreshold: fields.integer('recomputeThreshold', 0, { min: 0, max: 1_048_576 }),
      bidirectional: fields.flag('bidirectional'),
      decoderBlocksTtlMs: fields.integer(
        'decoderBlocksTtlMs',
        pullLimits.decoderBlocksTtlMs,
        leaseRange,
      ),
    }
  })
}
