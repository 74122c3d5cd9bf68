/** A wrong setting, with what to write instead: the one form in which this package refuses options. */
import { ConnectorError } from '@kvferry/connector-api'

export function configError(
  field: string,
  value: string,
  remedy: string,
): ConnectorError<'ERR_KV_CONFIG'> {
  const details = { field, value, remedy }
  return new ConnectorError('ERR_KV_CONFIG', `${field} is ${value}: ${remedy}`, details)
}
