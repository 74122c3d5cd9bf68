/**
 * The handoff: what a producer returns as `kv_transfer_params` and a consumer receives through a router.
 * It crosses HTTP, so anybody may have written it. `parseParams` believes nothing: a malformed one is
 * answered with a typed error that names the field, before any token of it is promised to the engine.
 * Whether the producer wrote it is checked later, by the worker half (handoff-signature.ts).
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
import {
  unsupported,
  blockIdList,
  canMapRanks,
  flag,
  hexBytes,
  hexOf,
  instantMs,
  integer,
  invalidField,
  text,
  protocolLimits,
} from '@kvferry/connector-api/protocol'
import { pullLimits } from './limits.ts'
import type { Handoff } from './metadata.ts'

/** Which side of a transfer a request is on; a request without KV transfer is on none. */
export type ParsedParams =
  | { readonly kind: 'none' }
  /**
   * Its KV will be read by another engine. `returned`: KV of the conversation so far, back from the engine
   * that decoded it; `error`: why that can't be used.
   */
  | {
      readonly kind: 'produce'
      readonly returned: Handoff | null
      readonly error: AnyConnectorError | null
    }
  | { readonly kind: 'consume'; readonly handoff: Handoff }
  | { readonly kind: 'malformed'; readonly error: AnyConnectorError }

export interface HandoffContext {
  readonly promptTokenCount: number
  readonly promptDigest: Uint8Array
  /** Of its first tokens; null for more than it has, undefined when the engine has no digests of parts. */
  readonly digestOf?: (tokenCount: number) => Uint8Array | null | undefined
  readonly blockTokens: number
  readonly tpSize: number
  readonly engineId: EngineId
  /** Whether handoffs back from a decode engine are taken. */
  readonly isBidirectional?: boolean
}

export function encodeHandoff(handoff: Handoff): KvTransferParams {
  const { remote } = handoff
  return {
    do_remote_prefill: !handoff.isReturn,
    do_remote_decode: handoff.isReturn,
    remote_engine_id: remote.engineId,
    remote_incarnation: remote.incarnation,
    remote_request_id: remote.requestId,
    remote_block_ids: [[...handoff.blockIds]],
    remote_block_size: handoff.blockTokens,
    remote_host: remote.host,
    remote_port: remote.port,
    remote_num_tokens: handoff.tokenCount,
    remote_prompt_digest: hexOf(handoff.promptDigest),
    remote_lease_deadline_ms: handoff.leaseDeadlineMs,
    remote_signature: hexOf(handoff.signature),
    tp_size: handoff.tpSize,
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
    if (isConsumer && isProducer) throw invalidField('do_remote_decode', true)
    if (isProducer) return parseReturned(params, context)
    if (!isConsumer) return { kind: 'none' }
    return { kind: 'consume', handoff: parseHandoff(params, context, false) }
  } catch (error) {
    if (ConnectorError.isInstance(error)) return { kind: 'malformed', error }
    throw error
  }
}

/** A prefill with the coordinates of an engine in it; old routers send them as null in any case. */
function parseReturned(params: KvTransferParams, context: HandoffContext): ParsedParams {
  const { remote_engine_id: engineId } = params
  const hasHandoff = engineId !== undefined && engineId !== null
  if (!hasHandoff || context.isBidirectional !== true) {
    return { kind: 'produce', returned: null, error: null }
  }
  try {
    return { kind: 'produce', returned: parseHandoff(params, context, true), error: null }
  } catch (error) {
    if (ConnectorError.isInstance(error)) return { kind: 'produce', returned: null, error }
    throw error
  }
}

function parseHandoff(
  params: KvTransferParams,
  context: HandoffContext,
  isReturn: boolean,
): Handoff {
  const { transfer_mode: mode, wire_version: version } = params
  if (mode !== 'pull') throw invalidField('transfer_mode', mode)
  if (version !== WIRE_VERSION) throw invalidField('wire_version', version)
  const tpSize = integer(params, 'tp_size', 1, protocolLimits.tpSizeMax)
  // Whole numbers of one side's ranks must make one of the other's.
  if (!canMapRanks(tpSize, context.tpSize)) {
    throw unsupported('tensorParallel', `handoff of ${tpSize} TP ranks for ${context.tpSize}`)
  }
  const remote = {
    engineId: asEngineId(text(params, 'remote_engine_id', limits.idSizeBytesMax)),
    incarnation: asIncarnation(text(params, 'remote_incarnation', limits.idSizeBytesMax)),
    host: text(params, 'remote_host', protocolLimits.hostSizeBytesMax),
    port: integer(params, 'remote_port', 1, 65_535),
    requestId: asRequestId(text(params, 'remote_request_id', limits.idSizeBytesMax)),
  }
  // An engine that reads from itself would wait for a lease that its own step loop must release.
  if (remote.engineId === context.engineId) throw invalidField('remote_engine_id', remote.engineId)
  const tokenCount = integer(params, 'remote_num_tokens', 1, 2 ** 32 - 1)
  // A conversation goes on after what was decoded.
  if (!isReturn && tokenCount !== context.promptTokenCount)
    throw invalidField('remote_num_tokens', tokenCount)
  const promptDigest = checkPrompt(params, tokenCount, context)
  const blockTokens = integer(params, 'remote_block_size', 1, protocolLimits.blockTokensMax)
  checkBlockSizes(blockTokens, context.blockTokens)
  const blockIds = blockIdList(params, 'remote_block_ids')
  if (blockIds.length !== Math.ceil(tokenCount / blockTokens)) {
    throw invalidField('remote_block_ids', `${blockIds.length} blocks for ${tokenCount} tokens`)
  }
  const leaseDeadlineMs = instantMs(params, 'remote_lease_deadline_ms')
  const signatureSize = tpSize * pullLimits.signatureSizeBytes
  const signature = hexBytes(params, 'remote_signature', signatureSize)
  const claims = {
    remote,
    blockIds,
    tokenCount,
    promptDigest,
    blockTokens,
    tpSize,
    leaseDeadlineMs,
  }
  return { ...claims, signature, isReturn }
}

/**
 * Whose KV it is: this very prompt's, or that of its first `tokenCount` tokens. Whoever reaches the engines'
 * HTTP can send any genuine handoff with any prompt of its length.
 */
function checkPrompt(
  params: KvTransferParams,
  tokenCount: number,
  { promptTokenCount, promptDigest, digestOf }: HandoffContext,
): Uint8Array {
  const given = hexBytes(params, 'remote_prompt_digest', limits.promptDigestSizeBytes)
  const own = tokenCount === promptTokenCount ? promptDigest : digestOf?.(tokenCount)
  if (own === undefined) {
    throw unsupported('isBidirectional', 'the next turn in an engine that has no digests of parts')
  }
  if (own === null) throw invalidField('remote_num_tokens', tokenCount)
  if (Buffer.compare(given, own) !== 0) {
    throw invalidField('remote_prompt_digest', params['remote_prompt_digest'])
  }
  return given
}

/** Blocks of one side must be whole numbers of the other's. */
function checkBlockSizes(remote: number, local: number): void {
  if (remote % local === 0 || local % remote === 0) return
  const sizes = `blocks of ${remote} tokens into blocks of ${local}`
  throw unsupported('supportsDifferentBlockSizes', sizes)
}
