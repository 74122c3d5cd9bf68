import { ConnectorError, limits, type AnyConnectorError } from '@kvferry/connector-api'
import { HandshakeBackOff, backOffMs, protocolLimits } from '@kvferry/connector-api/protocol'
import { createSimClock } from '@kvferry/connector-api/testing'
import { expect, test } from 'vitest'

const { handshakeBackOffMinMs: min, handshakeBackOffMaxMs: max } = protocolLimits
const errorOf = (peer: string): AnyConnectorError =>
  new ConnectorError('ERR_KV_PEER_UNAVAILABLE', `${peer} does not answer`, { peer })

/** Without chance: pauses are the longest there can be. */
function open() {
  const clock = createSimClock()
  const random = { uniform: () => 1, bytes: (count: number) => new Uint8Array(count) }
  return { clock, backOff: new HandshakeBackOff(clock, random) }
}

test('the pause doubles up to its maximum, and half of it is chance', () => {
  expect([1, 2, 3].map((count) => backOffMs(count, 1))).toEqual([min, 2 * min, 4 * min])
  expect(backOffMs(1, 0)).toBe(min / 2)
  expect(backOffMs(60, 1)).toBe(max)
})

test('a peer that failed is not called until its pause is over, and others are', async () => {
  const { clock, backOff } = open()
  const error = errorOf('p0')
  backOff.fail('p0', error)
  expect(backOff.errorOf('p1')).toBe(null)
  await clock.advance(min - 1)
  expect(backOff.errorOf('p0')).toBe(error)
  await clock.advance(1)
  expect(backOff.errorOf('p0')).toBe(null)
  backOff.fail('p0', error)
  await clock.advance(2 * min - 1)
  expect(backOff.errorOf('p0')).toBe(error)
})

test('after a success the pauses of that peer, and of no other, begin anew', async () => {
  const { clock, backOff } = open()
  for (let count = 0; count < 4; count++) {
    backOff.fail('p0', errorOf('p0'))
    backOff.fail('p1', errorOf('p1'))
  }
  backOff.succeed('p0')
  expect(backOff.errorOf('p0')).toBe(null)
  expect(backOff.errorOf('p1')).not.toBe(null)
  backOff.fail('p0', errorOf('p0'))
  await clock.advance(min)
  expect(backOff.errorOf('p0')).toBe(null)
})

test('when there are too many, the one that failed longest ago is forgotten', () => {
  const { backOff } = open()
  const known = (...keys: string[]) => keys.filter((key) => backOff.errorOf(key) !== null)
  for (let index = 0; index < limits.peerCountMax; index++) backOff.fail(`p${index}`, errorOf('p'))
  backOff.fail('p1', errorOf('p'))
  expect(known('p0', 'p1', 'p2')).toEqual(['p0', 'p1', 'p2'])
  backOff.fail('one more', errorOf('p'))
  backOff.fail('another', errorOf('p'))
  expect(known('p0', 'p1', 'p2', 'p3', 'one more')).toEqual(['p1', 'p3', 'one more'])
})
