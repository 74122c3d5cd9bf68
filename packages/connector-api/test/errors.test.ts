import { expect, test } from 'vitest'
import { ConnectorError } from '@kvferry/connector-api'

test('an error of a second copy of the package is recognised by its marker', () => {
  const error = new ConnectorError('ERR_KV_CLOSED', 'closed', { what: 'agent' })
  expect(ConnectorError.isInstance(error)).toBe(true)
  expect(ConnectorError.isInstance(new Error('closed'))).toBe(false)
  expect(error.isRetryable).toBe(false)
})
