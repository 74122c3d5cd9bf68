/**
 * Takes `kv_transfer_params` out of P's answer. Pure; called between the two legs. The router reads
 * nothing in them and changes nothing, except what the operator declared for a P that cannot describe
 * itself (flags `--prefill-engine-id`, `--prefill-side-channel`, `--prefill-tp`).
 */
import { limits, type KvTransferParams } from '@kvferry/connector-api'
import { handoffRefused } from './router-error.ts'

/** What the operator knows about a P without `/kvferry/v1/peer`. */
export interface DeclaredPrefill {
  /** P's answer must name this engine. */
  readonly engineId?: string | undefined
  /** Where D reaches P's side channel; replaces what P announces (often its own loopback address). */
  readonly sideChannel?: { readonly host: string; readonly port: number } | undefined
  /** Used where P says none. */
  readonly tpSize?: number | undefined
}

export interface PrefillAnswer {
  /** null: P gave none, so D has to compute the prompt itself. */
  readonly handoff: KvTransferParams | null
  /** P's measurements, when they were asked for. */
  readonly timings: unknown
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** @throws RouterError 502 ERR_KV_HANDOFF_INVALID. */
export function readPrefillAnswer(answer: string, declared: DeclaredPrefill): PrefillAnswer {
  let parsed: unknown
  try {
    parsed = JSON.parse(answer)
  } catch {
    throw handoffRefused('the answer is not JSON')
  }
  if (!isObject(parsed)) throw handoffRefused('the answer is not a JSON object')
  const timings = parsed['kvferry'] ?? null
  const params = parsed['kv_transfer_params'] ?? null
  if (params === null) return { handoff: null, timings }
  if (!isObject(params)) throw handoffRefused('kv_transfer_params is not an object')
  checkSize(params, answer)
  return { handoff: applyDeclared(params, declared), timings }
}

/** What is in an answer is no larger than the answer, so only those of large ones are measured. */
function checkSize(params: Record<string, unknown>, answer: string): void {
  const max = limits.handoffSizeBytesMax
  if (Buffer.byteLength(answer) <= max) return
  const sizeBytes = sizeOf(params)
  if (sizeBytes <= max) return
  throw handoffRefused(`kv_transfer_params has ${sizeBytes} bytes, more than ${max}`)
}

function sizeOf(params: Record<string, unknown>): number {
  try {
    return Buffer.byteLength(JSON.stringify(params))
  } catch {
    return Infinity
  }
}

function applyDeclared(
  params: Record<string, unknown>,
  { engineId, sideChannel, tpSize }: DeclaredPrefill,
): Record<string, unknown> {
  const named = params['remote_engine_id']
  if (engineId !== undefined && named !== undefined && named !== engineId) {
    throw handoffRefused(`it calls itself ${JSON.stringify(named)}, but "${engineId}" was declared`)
  }
  return {
    ...params,
    ...(engineId === undefined ? {} : { remote_engine_id: engineId }),
    ...(sideChannel === undefined
      ? {}
      : { remote_host: sideChannel.host, remote_port: sideChannel.port }),
    ...(tpSize === undefined || typeof params['tp_size'] === 'number' ? {} : { tp_size: tpSize }),
  }
}
