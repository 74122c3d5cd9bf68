/**
 * Reads single fields of `kv_transfer_params`, which anybody may have written. Each reader returns a value
 * of the right type and range, or throws ERR_KV_HANDOFF_INVALID with the field's name.
 */
import { ConnectorError, limits, type AnyConnectorError, type KvTransferParams } from '../index.ts'
import { isWellFormed, utf8Size } from './bytes.ts'
import { unsupported } from './failures.ts'

/** @throws ConnectorError ERR_KV_HANDOFF_INVALID, as all below. Absent and null mean false. */
export function flag(params: KvTransferParams, field: string): boolean {
  const value = params[field]
  if (value === undefined || value === null) return false
  if (typeof value !== 'boolean') throw invalidField(field, value)
  return value
}

/** @throws ConnectorError ERR_KV_HANDOFF_INVALID. */
export function text(params: KvTransferParams, field: string, sizeMax: number): string {
  const value = params[field]
  if (typeof value !== 'string' || value === '' || utf8Size(value) > sizeMax) {
    throw invalidField(field, value)
  }
  // Two ids that differ here would be one for the other half, and for peers.
  if (!isWellFormed(value)) throw invalidField(field, value)
  return value
}

/** @throws ConnectorError ERR_KV_HANDOFF_INVALID. */
export function integer(params: KvTransferParams, field: string, min: number, max: number): number {
  const value = params[field]
  if (typeof value !== 'number' || !Number.isInteger(value) || value < min || value > max) {
    throw invalidField(field, value)
  }
  return value
}

/** A reading of the producer's clock. @throws ConnectorError ERR_KV_HANDOFF_INVALID. */
export function instantMs(params: KvTransferParams, field: string): number {
  const value = params[field]
  if (typeof value !== 'number' || !Number.isFinite(value) || value <= 0) {
    throw invalidField(field, value)
  }
  return value
}

/** @throws ConnectorError ERR_KV_HANDOFF_INVALID. Lower-case hexadecimal of exactly `sizeBytes`. */
export function hexBytes(params: KvTransferParams, field: string, sizeBytes: number): Uint8Array {
  const value = params[field]
  if (typeof value !== 'string' || value.length !== 2 * sizeBytes || !/^[0-9a-f]*$/.test(value)) {
    throw invalidField(field, value)
  }
  return new Uint8Array(Buffer.from(value, 'hex'))
}

/** @throws ConnectorError ERR_KV_HANDOFF_INVALID; ERR_KV_UNSUPPORTED for more than one group. */
export function blockIdList(params: KvTransferParams, field: string): Uint32Array {
  const value = params[field]
  // One flat list of ids is what vLLM wrote before it had groups.
  if (!Array.isArray(value) || value.length === 0 || !value.every(Array.isArray)) {
    throw invalidField(field, value)
  }
  if (value.length > 1) throw unsupported('groupCountMax', `handoff of ${value.length} KV groups`)
  const ids = value[0] as readonly unknown[]
  if (ids.length === 0) throw invalidField(field, ids)
  if (ids.length > limits.blocksPerPostMax) throw invalidField(field, `${ids.length} blocks`)
  const seen = new Set<number>()
  const blockIds = new Uint32Array(ids.length)
  for (let at = 0; at < ids.length; at++) {
    const id = ids[at]
    if (!isBlockId(id)) throw invalidField(field, id)
    if (seen.has(id)) throw invalidField(field, 'a block twice')
    seen.add(id)
    blockIds[at] = id
  }
  return blockIds
}

const isBlockId = (id: unknown): id is number =>
  typeof id === 'number' && Number.isInteger(id) && id >= 0 && id <= 0xffff_ffff

export function invalidField(field: string, value: unknown): AnyConnectorError {
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
