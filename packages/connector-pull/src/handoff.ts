/**
 * The handoff: what a producer returns as `kv_transfer_params` and a consumer receives through a router.
 * It crosses HTTP, so anybody may have written it. `parseHandoff` believes nothing: a malformed one is
 * answered with a typed error that names the field, before any token of it is promised to the engine.
 */
import {
  ConnectorError,
  WIRE_VERSION,
  asEngineId,
  asIncarnation,
  asRequestId,
  limits,
  type AnyConnectorError,
  type EngineId,
  type KvTransferParams,
} from '@kvferry/connector-api'
import { utf8Size } from './bytes.ts'
import { unsupported } from './failures.ts'
import { pullLimits } from './limits.ts'
import type { RemoteRequest } from './metadata.ts'

/** Every block of the prompt on the producer, in token order; the last one may be partial. */
export interface Handoff {
  readonly remote: RemoteRequest
  readonly blockIds: Uint32Array
  readonly tokenCount: number
  /** Lease time left when the producer wrote the handoff. */
  readonly leaseMs: number
}

/** Which side of a transfer a request is on; a request without KV transfer is on none. */
export type ParsedParams =
  | { readonly kind: 'none' }
  /** Its KV will be read by another engine. */
  | { readonly kind: 'produce' }
  | { readonly kind: 'consume'; readonly handoff: Handoff }
  | { readonly kind: 'malformed'; readonly error: AnyConnectorError }

export interface HandoffContext {
  readonly promptTokenCount: number
  readonly blockTokens: number
  readonly engineId: EngineId
}

export function encodeHandoff({
  remote,
  blockIds,
  tokenCount,
  leaseMs,
}: Handoff): KvTransferParams {
  return {
    do_remote_prefill: true,
    do_remote_decode: false,
    remote_engine_id: remote.engineId,
    remote_incarnation: remote.incarnation,
    remote_request_id: remote.requestId,
    remote_block_ids: [[...blockIds]],
    remote_host: remote.host,
    remote_port: remote.port,
    remote_num_tokens: tokenCount,
    remote_lease_ms: leaseMs,
    tp_size: 1,
    transfer_mode: 'pull',
    wire_version: WIRE_VERSION,
  }
}

/** Pure; never throws for what the params hold. Unknown keys are ignored: routers add their own. */
export function parseParams(
  params: KvTransferParams | null,
  context: HandoffContext,
): ParsedParams {
  if (params === null) return { kind: 'none' }
  try {
    const isConsumer = flag(params, 'do_remote_prefill')
    const isProducer = flag(params, 'do_remote_decode')
    if (isConsumer && isProducer) throw invalid('do_remote_decode', true)
    if (isProducer) return { kind: 'produce' }
    if (!isConsumer) return { kind: 'none' }
    return { kind: 'consume', handoff: parseHandoff(params, context) }
  } catch (error) {
    if (ConnectorError.isInstance(error)) return { kind: 'malformed', error }
    throw error
  }
}

function parseHandoff(params: KvTransferParams, context: HandoffContext): Handoff {
  if (params['transfer_mode'] !== 'pull') throw invalid('transfer_mode', params['transfer_mode'])
  if (params['wire_version'] !== WIRE_VERSION) throw invalid('wire_version', params['wire_version'])
  if (integer(params, 'tp_size', 1, 4_096) !== 1) {
    throw unsupported('tensorParallel', `handoff of ${String(params['tp_size'])} TP ranks`)
  }
  const remote = {
    engineId: asEngineId(text(params, 'remote_engine_id', limits.idSizeBytesMax)),
    incarnation: asIncarnation(text(params, 'remote_incarnation', limits.idSizeBytesMax)),
    host: text(params, 'remote_host', pullLimits.hostSizeBytesMax),
    port: integer(params, 'remote_port', 1, 65_535),
    requestId: asRequestId(text(params, 'remote_request_id', limits.idSizeBytesMax)),
  }
  // An engine that reads from itself would wait for a lease that its own step loop must release.
  if (remote.engineId === context.engineId) throw invalid('remote_engine_id', remote.engineId)
  const tokenCount = integer(params, 'remote_num_tokens', 1, 2 ** 32 - 1)
  if (tokenCount !== context.promptTokenCount) throw invalid('remote_num_tokens', tokenCount)
  const blockIds = parseBlockIds(params['remote_block_ids'])
  if (blockIds.length !== Math.ceil(tokenCount / context.blockTokens)) {
    throw invalid('remote_block_ids', `${blockIds.length} blocks for ${tokenCount} tokens`)
  }
  const leaseMs = params['remote_lease_ms']
  if (typeof leaseMs !== 'number' || !Number.isFinite(leaseMs) || leaseMs <= 0) {
    throw invalid('remote_lease_ms', leaseMs)
  }
  return { remote, blockIds, tokenCount, leaseMs }
}

function parseBlockIds(value: unknown): Uint32Array {
  // One flat list of ids is what vLLM wrote before it had groups.
  if (!Array.isArray(value) || value.length === 0 || !value.every(Array.isArray)) {
    throw invalid('remote_block_ids', value)
  }
  if (value.length > 1) throw unsupported('groupCountMax', `handoff of ${value.length} KV groups`)
  const ids = value[0] as readonly unknown[]
  if (ids.length === 0) throw invalid('remote_block_ids', ids)
  if (ids.length > limits.blocksPerPostMax) {
    throw invalid('remote_block_ids', `${ids.length} blocks`)
  }
  if (!ids.every(isBlockId))
    throw invalid(
      'remote_block_ids',
      ids.find((id) => !isBlockId(id)),
    )
  if (new Set(ids).size !== ids.length) throw invalid('remote_block_ids', 'a block twice')
  return Uint32Array.from(ids)
}

const isBlockId = (id: unknown): id is number =>
  typeof id === 'number' && Number.isInteger(id) && id >= 0 && id <= 0xffff_ffff

function flag(params: KvTransferParams, field: string): boolean {
  const value = params[field]
  if (value === undefined || value === null) return false
  if (typeof value !== 'boolean') throw invalid(field, value)
  return value
}

function text(params: KvTransferParams, field: string, sizeMax: number): string {
  const value = params[field]
  if (typeof value !== 'string' || value === '' || utf8Size(value) > sizeMax) {
    throw invalid(field, value)
  }
  return value
}

function integer(params: KvTransferParams, field: string, min: number, max: number): number {
  const value = params[field]
  if (typeof value !== 'number' || !Number.isInteger(value) || value < min || value > max) {
    throw invalid(field, value)
  }
  return value
}

function invalid(field: string, value: unknown): AnyConnectorError {
  const shown = describe(value)
  return new ConnectorError('ERR_KV_HANDOFF_INVALID', `handoff: ${field} is ${shown}`, {
    field,
    value: shown,
  })
}

/** Short enough for a log line whatever a client sent; never walks into it. */
function describe(value: unknown): string {
  if (typeof value === 'string') return value.slice(0, 64)
  if (Array.isArray(value)) return `an array of ${value.length}`
  if (typeof value === 'object' && value !== null) return 'an object'
  return String(value)
}
