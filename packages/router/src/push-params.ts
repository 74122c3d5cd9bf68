/**
 * What D is told when it is asked at the same time as P: who P is and where it is reached, and the id under
 * which both meet. Pure; made by concurrent dispatch from P's own description or the operator's word.
 */
import { assert, type KvTransferParams, type Random } from '@kvferry/connector-api'
import type { EnginePeer } from './engine-peer.ts'

/** New for each try, so that no leg can meet what is left of an earlier one. */
export const newTransferId = (random: Random): string =>
  `xfer-${Buffer.from(random.bytes(16)).toString('hex')}`

/** Why D could not be told where P is, with the remedy; null: it can. */
export function missingCoordinates({
  transferMode,
  engineId,
  sideChannel,
  tpSize,
}: EnginePeer): string | null {
  const missing = [
    ...(engineId === null ? ['engine id (--prefill-engine-id)'] : []),
    ...(sideChannel === null ? ['side channel (--prefill-side-channel host:port)'] : []),
    ...(tpSize === null ? ['TP size (--prefill-tp)'] : []),
  ]
  if (missing.length === 0) return null
  return `${transferMode} needs to know its ${missing.join(', ')}: it does not say, so declare it`
}

/** Only for a P that lacks nothing. */
export function pushParams(
  { engineId, sideChannel, tpSize, ppSize }: EnginePeer,
  requestId: string,
  transferId: string,
): KvTransferParams {
  assert(sideChannel !== null, 'a prefill engine without coordinates was chosen')
  return {
    do_remote_prefill: true,
    do_remote_decode: false,
    remote_engine_id: engineId,
    remote_host: sideChannel.host,
    remote_port: sideChannel.port,
    tp_size: tpSize,
    pp_size: ppSize ?? 1,
    remote_request_id: requestId,
    transfer_id: transferId,
  }
}
