/**
 * `kv_transfer_params` as a router writes them for both engines of a transfer at once: the producer gets the
 * transfer's id, the consumer also where the producer is. They cross HTTP, so anybody may have written
 * them: a malformed one is answered with a typed error that names the field, before any token is promised.
 */
import {
  ConnectorError,
  asEngineId,
  limits,
  type AnyConnectorError,
  type EngineId,
  type KvTransferParams,
} from '@kvferry/connector-api'
import {
  canMapRanks,
  flag,
  integer,
  invalidField,
  protocolLimits,
  text,
  unsupported,
} from '@kvferry/connector-api/protocol'
import type { ProducerPlace } from '@kvferry/connector-api/remote-writes'

export type ParsedParams =
  | { readonly kind: 'none' }
  | { readonly kind: 'produce'; readonly transferId: string }
  | { readonly kind: 'consume'; readonly transferId: string; readonly producer: ProducerPlace }
  | { readonly kind: 'malformed'; readonly error: AnyConnectorError }

/** Of the engine that reads the params. */
export interface OwnPlace {
  readonly engineId: EngineId
  readonly tpSize: number
}

/** Pure; never throws for what the params hold. Unknown keys are ignored: routers add their own. */
export function parseParams(params: KvTransferParams | null, own: OwnPlace): ParsedParams {
  if (params === null) return { kind: 'none' }
  try {
    const isConsumer = flag(params, 'do_remote_prefill')
    const isProducer = flag(params, 'do_remote_decode')
    if (isConsumer && isProducer) throw invalidField('do_remote_decode', true)
    if (!isConsumer && !isProducer) return { kind: 'none' }
    const transferId = text(params, 'transfer_id', limits.idSizeBytesMax)
    if (isProducer) return { kind: 'produce', transferId }
    return { kind: 'consume', transferId, producer: producerOf(params, own) }
  } catch (error) {
    if (ConnectorError.isInstance(error)) return { kind: 'malformed', error }
    throw error
  }
}

function producerOf(params: KvTransferParams, own: OwnPlace): ProducerPlace {
  const engineId = asEngineId(text(params, 'remote_engine_id', limits.idSizeBytesMax))
  // An engine that waits for itself would wait for a step that its own wait holds up.
  if (engineId === own.engineId) throw invalidField('remote_engine_id', engineId)
  const { pp_size: ppSize } = params
  if (ppSize !== undefined && ppSize !== null && ppSize !== 1) {
    throw unsupported('pipelineParallel', `a producer of ${String(ppSize)} pipeline stages`)
  }
  const tpSize = integer(params, 'tp_size', 1, protocolLimits.tpSizeMax)
  if (!canMapRanks(tpSize, own.tpSize)) {
    throw unsupported('tensorParallel', `a producer of ${tpSize} TP ranks for ${own.tpSize}`)
  }
  return {
    engineId,
    host: text(params, 'remote_host', protocolLimits.hostSizeBytesMax),
    port: integer(params, 'remote_port', 1, 65_535),
    tpSize,
  }
}
