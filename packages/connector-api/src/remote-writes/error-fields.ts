/**
 * A producer's error in a message: its code and its words. The consumer's load fails with the code, where it
 * can mean the same there; everything else is a failed transfer that names the code.
 */
import { ConnectorError, limits, type AnyConnectorError, type RequestId } from '../index.ts'
import type { ByteReader, ByteWriter } from '../protocol/index.ts'
import { writeLimits } from './limits.ts'

export function writeError(writer: ByteWriter, error: AnyConnectorError): void {
  // Four bytes at most for each UTF-16 unit.
  writer.string(error.code).string(error.message.slice(0, writeLimits.reasonSizeBytesMax / 4))
  const { limit, value, max } = boundOf(error)
  writer.string(limit).f64(value).f64(max)
}

/** Of an error that names a bound, the bound; of others nothing. */
function boundOf(error: AnyConnectorError): { limit: string; value: number; max: number } {
  if (error.code === 'ERR_KV_LIMIT') return error.details
  const { blocks, max } =
    error.code === 'ERR_KV_QUARANTINE_FULL' ? error.details : { blocks: 0, max: 0 }
  return { limit: '', value: blocks, max }
}

/** `requestId`: the reader's own, where it knows which. @throws ConnectorError ERR_KV_MESSAGE_INVALID. */
export function readError(
  reader: ByteReader,
  peer: string,
  requestId: RequestId | null,
): AnyConnectorError {
  const code = reader.string(limits.idSizeBytesMax)
  const words = reader.string(writeLimits.reasonSizeBytesMax)
  const limit = reader.string(limits.idSizeBytesMax)
  const [value, max] = [reader.f64(), reader.f64()]
  const message = `${peer}: ${words}`
  if (code === 'ERR_KV_LEASE_EXPIRED' && requestId !== null) {
    return new ConnectorError(code, message, { requestId })
  }
  switch (code) {
    case 'ERR_KV_CLOSED':
      return new ConnectorError(code, message, { what: `connector of ${peer}` })
    case 'ERR_KV_DEADLINE':
      return new ConnectorError(code, message, { what: `WRITE of ${peer}`, deadlineMs: 0 })
    case 'ERR_KV_HANDOFF_INVALID':
      return new ConnectorError(code, message, { field: 'registration', value: words })
    case 'ERR_KV_LIMIT':
      return new ConnectorError(code, message, { limit, value, max })
    case 'ERR_KV_QUARANTINE_FULL':
      return new ConnectorError(code, message, { blocks: value, max })
    case 'ERR_KV_UNAUTHORISED':
      return new ConnectorError(code, message, { reason: words })
    default:
      return new ConnectorError('ERR_KV_TRANSFER_FAILED', message, {
        ...{ operation: 'write', peer, status: code },
      })
  }
}
