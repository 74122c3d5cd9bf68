import { asEngineId, limits } from '@kvferry/connector-api'
import {
  addressFullError,
  handshakesToStart,
  protocolLimits,
  type OpenHandshake,
} from '@kvferry/connector-api/protocol'
import { expect, test } from 'vitest'

const { handshakesInFlightMax, handshakesPerAddressMax, handshakesWaitingPerAddressMax } =
  protocolLimits
const at = (port: number, name: string, isStarted = false): OpenHandshake => ({
  address: { engineId: asEngineId(name), host: '127.0.0.1', port },
  isStarted,
})
const many = (count: number, port: number, isStarted = false): OpenHandshake[] =>
  Array.from({ length: count }, (_, index) => at(port, `name-${index}`, isStarted))

test('a place that does not answer holds its share, whatever names it is called by', () => {
  const silent = many(handshakesInFlightMax, 9_999)
  const good = at(5_600, 'p0')
  const started = handshakesToStart([...silent, good])
  expect(started).toEqual([...silent.slice(0, handshakesPerAddressMax), good])
  const running = silent.map((one, index) => ({
    ...one,
    isStarted: index < handshakesPerAddressMax,
  }))
  expect(handshakesToStart([...running, good])).toEqual([good])
})

test('no more run than may in all, in order of arrival', () => {
  const open = Array.from({ length: handshakesInFlightMax + 3 }, (_, index) =>
    at(1_000 + index, 'p0', index < 2),
  )
  expect(handshakesToStart(open)).toEqual(open.slice(2, handshakesInFlightMax))
  expect(handshakesToStart([])).toEqual([])
})

test('the ranks of one engine may all wait, and no address fills the table', () => {
  const open = many(handshakesWaitingPerAddressMax - 1, 9_999)
  expect(addressFullError(open, open[0]!.address)).toBe(null)
  const full = [...open, at(9_999, 'last')]
  expect(addressFullError(full, open[0]!.address)).toMatchObject({
    code: 'ERR_KV_LIMIT',
    details: { limit: 'handshakesWaitingPerAddressMax' },
  })
  expect(addressFullError(full, at(9_998, 'p0').address)).toBe(null)
  expect(handshakesWaitingPerAddressMax).toBeGreaterThanOrEqual(protocolLimits.tpSizeMax)
  expect(handshakesWaitingPerAddressMax).toBeLessThan(limits.peerCountMax)
})
