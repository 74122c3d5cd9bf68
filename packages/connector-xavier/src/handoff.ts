/**
 * The handoff: what a producer returns as `kv_transfer_params` and a consumer receives through a router. It
 * crosses HTTP, so anybody may have written it: a malformed one is answered with a typed error that names
 * the field, before any token of it is promised. Whether its ticket is one, its producer knows.
 */
import {
  ConnectorError,
  WIRE_VERSION,
  asEngineId,
  limits,
  type AnyConnectorError,
  type EngineId,
  type KvTransferParams,
} from '@kvferry/connector-api'
import {
  flag,
  hexBytes,
  integer,
  invalidField,
  protocolLimits,
  text,
  unsupported,
} from '@kvferry/connector-api/protocol'
import type { ProducerPlace } from '@kvferry/connector-api/remote-writes'
import { xavierLimits } from './limits.ts'

/** 128 bits (ticket-maker.ts), as 32 lower-case hexadecimal digits. */
export type Ticket = string

export interface Handoff {
  readonly producer: ProducerPlace
  readonly ticket: Ticket
  /** Of the prompt, all of which comes with it. */
  readonly tokenCount: number
}

export type ParsedParams =
  | { readonly kind: 'none' }
  /** Its KV will be written to another engine. */
  | { readonly kind: 'produce' }
  | { readonly kind: 'consume'; readonly handoff: Handoff }
  | { readonly kind: 'malformed'; readonly error: AnyConnectorError }

/** Of the engine that reads the params. */
export interface HandoffContext {
  readonly engineId: EngineId
  readonly promptTokenCount: number
}

export const ticketOf = (bits: Uint8Array): Ticket => Buffer.from(bits).toString('hex')

export function encodeHandoff({ producer, ticket, tokenCount }: Handoff): KvTransferParams {
  return {
    do_remote_prefill: true,
    do_remote_decode: false,
    remote_engine_id: producer.engineId,
    remote_host: producer.host,
    remote_port: producer.port,
    remote_ticket: ticket,
    remote_num_tokens: tokenCount,
    tp_size: producer.tpSize,
    transfer_mode: 'ticket',
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
    if (isConsumer && isProducer) throw invalidField('do_remote_decode', true)
    if (isProducer) return { kind: 'produce' }
    if (!isConsumer) return { kind: 'none' }
    return { kind: 'consume', handoff: parseHandoff(params, context) }
  } catch (error) {
    if (ConnectorError.isInstance(error)) return { kind: 'malformed', error }
    throw error
  }
}

function parseHandoff(
  params: KvTransferParams,
  { engineId: own, promptTokenCount }: HandoffContext,
): Handoff {
  const { transfer_mode: mode, wire_version: version } = params
  if (mode !== 'ticket') throw invalidField('transfer_mode', mode)
  if (version !== WIRE_VERSION) throw invalidField('wire_version', version)
  const tpSize = integer(params, 'tp_size', 1, protocolLimits.tpSizeMax)
  if (tpSize !== 1) throw unsupported('tensorParallel', `a producer of ${tpSize} TP ranks`)
  const engineId = asEngineId(text(params, 'remote_engine_id', limits.idSizeBytesMax))
  // An engine that waits for itself would wait for a step that its own wait holds up.
  if (engineId === own) throw invalidField('remote_engine_id', engineId)
  const producer = {
    ...{ engineId, tpSize },
    host: text(params, 'remote_host', protocolLimits.hostSizeBytesMax),
    port: integer(params, 'remote_port', 1, 65_535),
  }
  const ticket = ticketOf(hexBytes(params, 'remote_ticket', xavierLimits.ticketSizeBytes))
  const tokenCount = integer(params, 'remote_num_tokens', 1, 2 ** 32 - 1)
  if (tokenCount !== promptTokenCount) throw invalidField('remote_num_tokens', tokenCount)
  return { producer, ticket, tokenCount }
}
