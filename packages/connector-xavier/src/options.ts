/**
 * The connector's `options`: defaults, validation, and the answer to a key that does not exist. Checked
 * once, when the engine starts.
 */
import { historyPolicyNames, limits, type HistoryPolicyName } from '@kvferry/connector-api'
import { readOptions } from '@kvferry/connector-api/protocol'
import { xavierLimits } from './limits.ts'

export interface XavierOptions {
  /**
   * `direct`: the producer WRITEs out of the engine's blocks. `snapshot`: out of a copy, once all of a prompt is
   * copied.
   */
  readonly staging: 'direct' | 'snapshot'
  /** How long the producer keeps blocks whose ticket nobody has claimed. */
  readonly unclaimedTicketMs: number
  /** How long it keeps them after the last word of the consumer that claimed it. */
  readonly claimedTicketMs: number
  /** A WRITE without final status after this counts as overdue; its blocks stay where they are. */
  readonly transferDeadlineMs: number
  /** Connect, exchange, add the peer. */
  readonly handshakeTimeoutMs: number
  /** How long the consumer waits for its blocks before it withdraws and computes them itself. */
  readonly loadTimeoutMs: number
  /** Fewer missing tokens than this are computed instead of loaded. */
  readonly recomputeThreshold: number
  /** Budget of the history's device tier; 0: no history. A consumer has none, whatever it says. */
  readonly gpuCacheBytes: number
  /** Blocks of the history's host tier; null: as many as the engine has. */
  readonly hostBlockCount: number | null
  /** Which blocks the history keeps. */
  readonly historyPolicy: HistoryPolicyName
}

/** vLLM's settings of the same meaning. */
const foreignNames: ReadonlyMap<string, string> = new Map([
  ['kv_lease_duration', 'unclaimedTicketMs'],
  ['kv_recompute_threshold', 'recomputeThreshold'],
  // Xinference's
  ['xavier_gpu_cache_bytes', 'gpuCacheBytes'],
])

const hourMs = 3_600_000

/** @throws ConnectorError ERR_KV_CONFIG naming field, value and remedy of everything that is wrong. */
export function parseXavierOptions(options: Readonly<Record<string, unknown>>): XavierOptions {
  return readOptions<XavierOptions>(options, foreignNames, (fields) => {
    const whole = (field: keyof XavierOptions, fallback: number, min = 1, max = hourMs) =>
      fields.integer(field, fallback, { min, max })
    const unclaimedTicketMs = whole('unclaimedTicketMs', xavierLimits.unclaimedTicketMs, 1_000)
    const claimedTicketMs = whole(
      'claimedTicketMs',
      Math.max(xavierLimits.claimedTicketMs, unclaimedTicketMs),
      1_000,
    )
    fields.rule({
      field: 'claimedTicketMs',
      beside: 'unclaimedTicketMs',
      holds: claimedTicketMs >= unclaimedTicketMs,
      remedy: `use at least unclaimedTicketMs (${unclaimedTicketMs})`,
    })
    return {
      staging: fields.choice('staging', ['direct', 'snapshot']),
      unclaimedTicketMs,
      claimedTicketMs,
      transferDeadlineMs: whole('transferDeadlineMs', limits.transferDeadlineMs),
      handshakeTimeoutMs: whole('handshakeTimeoutMs', limits.handshakeTimeoutMs, 1, 600_000),
      loadTimeoutMs: whole('loadTimeoutMs', xavierLimits.loadTimeoutMs),
      recomputeThreshold: whole('recomputeThreshold', 0, 0, 1_048_576),
      gpuCacheBytes: whole('gpuCacheBytes', xavierLimits.gpuCacheBytes, 0, Number.MAX_SAFE_INTEGER),
      hostBlockCount: fields.integerOrNull('hostBlockCount', { min: 0, max: 2 ** 32 }),
      historyPolicy: fields.choice('historyPolicy', historyPolicyNames),
    }
  })
}
