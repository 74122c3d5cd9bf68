/**
 * The connector's `options`: defaults, validation, and the answer to a key that does not exist (the
 * nearest one that does, or our name for a setting of vLLM's). Checked once, when the engine starts.
 */
import { ConnectorError, limits } from '@kvferry/connector-api'
import { pullLimits } from './limits.ts'
import { nearestOption } from './nearest-option.ts'

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

const knownKeys = [
  'posting',
  'leaseDurationMs',
  'transferDeadlineMs',
  'handshakeTimeoutMs',
  'recomputeThreshold',
  'bidirectional',
  'decoderBlocksTtlMs',
] as const satisfies readonly (keyof PullOptions)[]

/** A lease must be long beside the margin that its reader keeps. */
const leaseDurationMsMin = 10 * limits.leaseSafetyMarginMs

/** @throws ConnectorError ERR_KV_CONFIG naming field, value and remedy. */
export function parsePullOptions(options: Readonly<Record<string, unknown>>): PullOptions {
  for (const key of Object.keys(options)) {
    if (!(knownKeys as readonly string[]).includes(key)) throw unknownOption(key, options[key])
  }
  const leaseDurationMs = integer(options, 'leaseDurationMs', limits.leaseDurationMs, {
    min: leaseDurationMsMin,
    max: 3_600_000,
  })
  const transferDeadlineMs = integer(
    options,
    'transferDeadlineMs',
    Math.min(limits.transferDeadlineMs, leaseDurationMs),
    { min: 1, max: 3_600_000 },
  )
  if (transferDeadlineMs > leaseDurationMs) {
    throw invalid(
      'transferDeadlineMs',
      transferDeadlineMs,
      `at most leaseDurationMs (${leaseDurationMs})`,
    )
  }
  return {
    posting: posting(options['posting']),
    leaseDurationMs,
    transferDeadlineMs,
    handshakeTimeoutMs: integer(options, 'handshakeTimeoutMs', limits.handshakeTimeoutMs, {
      min: 1,
      max: 600_000,
    }),
    recomputeThreshold: integer(options, 'recomputeThreshold', 0, { min: 0, max: 1_048_576 }),
    bidirectional: flag(options, 'bidirectional'),
    decoderBlocksTtlMs: integer(options, 'decoderBlocksTtlMs', pullLimits.decoderBlocksTtlMs, {
      min: leaseDurationMsMin,
      max: 3_600_000,
    }),
  }
}

function posting(value: unknown): PullOptions['posting'] {
  if (value === undefined) return 'background'
  if (value === 'background' || value === 'inline') return value
  throw invalid('posting', value, 'background or inline')
}

function flag(options: Readonly<Record<string, unknown>>, field: keyof PullOptions): boolean {
  const value = options[field] ?? false
  if (typeof value !== 'boolean') throw invalid(field, value, 'true or false')
  return value
}

function integer(
  options: Readonly<Record<string, unknown>>,
  field: keyof PullOptions,
  fallback: number,
  { min, max }: { readonly min: number; readonly max: number },
): number {
  const value = options[field]
  if (value === undefined) return fallback
  if (typeof value !== 'number' || !Number.isInteger(value) || value < min || value > max) {
    throw invalid(field, value, `an integer in ${min}..${max}`)
  }
  return value
}

function unknownOption(key: string, value: unknown): ConnectorError {
  const near = nearestOption(key, knownKeys)
  const remedy =
    near === null ? `remove it; known options: ${knownKeys.join(', ')}` : `did you mean ${near}?`
  return invalid(key, value, remedy)
}

function invalid(key: string, value: unknown, remedy: string): ConnectorError<'ERR_KV_CONFIG'> {
  const field = `options.${key}`
  return new ConnectorError('ERR_KV_CONFIG', `${field}: ${String(value)} is not valid; ${remedy}`, {
    field,
    value: String(value),
    remedy,
  })
}
