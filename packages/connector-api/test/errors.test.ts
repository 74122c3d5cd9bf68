import { expect, test } from 'vitest'
import { ConnectorError, connectorErrorCodes } from '@kvferry/connector-api'

test('an error of a second copy of the package is recognised by its marker', async () => {
  const error = new ConnectorError('ERR_KV_CLOSED', 'closed', { what: 'agent' })
  expect(ConnectorError.isInstance(error)).toBe(true)
  expect(ConnectorError.isInstance(new Error('closed'))).toBe(false)
  expect(ConnectorError.isInstance(null)).toBe(false)
  const copyUrl = new URL('../src/errors.ts?copy', import.meta.url).href
  const copy = (await import(copyUrl)) as { ConnectorError: typeof ConnectorError }
  const foreign = new copy.ConnectorError('ERR_KV_CLOSED', 'closed', { what: 'agent' })
  expect(copy.ConnectorError).not.toBe(ConnectorError)
  expect(foreign instanceof ConnectorError).toBe(false)
  expect(ConnectorError.isInstance(foreign)).toBe(true)
})

test('code, details and cause are kept; the marker is not part of what is printed', () => {
  const cause = new Error('socket')
  const details = { peer: 'p0' }
  const error = new ConnectorError('ERR_KV_PEER_UNAVAILABLE', 'p0 is gone', details, { cause })
  expect(error).toMatchObject({ name: 'ConnectorError', message: 'p0 is gone', details, cause })
  expect(error.isRetryable).toBe(true)
  expect(Object.keys(error)).not.toContain('kvferry.ConnectorError')
})

test('every code says whether a retry can help', () => {
  expect(connectorErrorCodes.length).toBeGreaterThan(10)
  for (const code of connectorErrorCodes) {
    const error = new ConnectorError(code, code, {} as never)
    expect(typeof error.isRetryable, code).toBe('boolean')
  }
})
