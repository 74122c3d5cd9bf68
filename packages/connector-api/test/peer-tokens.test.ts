import { asEngineId, asIncarnation, limits, type PeerIdentity } from '@kvferry/connector-api'
import { PeerTokens } from '@kvferry/connector-api/protocol'
import { createSeededRandom } from '@kvferry/connector-api/testing'
import { expect, test } from 'vitest'

const identity = (index: number, life = 0): PeerIdentity => ({
  engineId: asEngineId(`d${index}`),
  incarnation: asIncarnation(`d${index}-${life}`),
})

/** What a token says: a rank, here the only one of its engine. */
const rank = (index: number, life = 0) => ({ ...identity(index, life), rank: 0, tpSize: 1 })

function full(isNeeded: (peer: PeerIdentity) => boolean) {
  const tokens = new PeerTokens(createSeededRandom(1), isNeeded)
  const issued = Array.from({ length: limits.peerCountMax }, (_, index) =>
    tokens.issue(identity(index)),
  )
  return { tokens, issued }
}

test('a life has one token, and the next life voids it', () => {
  const tokens = new PeerTokens(createSeededRandom(1), () => false)
  const first = tokens.issue(identity(0))
  expect(tokens.issue(identity(0))).toBe(first)
  expect(tokens.identify(first)).toEqual(rank(0))
  const second = tokens.issue(identity(0, 1))
  expect(tokens.identify(first)).toBe(null)
  expect(tokens.identify(second)).toEqual(rank(0, 1))
  expect(tokens.identify(new Uint8Array(16))).toBe(null)
})

test('whoever was not heard of for longest is forgotten first, not who shook hands first', () => {
  const { tokens, issued } = full(() => false)
  expect(tokens.identify(issued[0]!)).toEqual(rank(0))
  tokens.issue(identity(limits.peerCountMax))
  expect(tokens.identify(issued[0]!)).toEqual(rank(0))
  expect(tokens.identify(issued[1]!)).toBe(null)
})

test('a peer with work that is open is not forgotten, and where all have some, a new one is refused', () => {
  const needed = new Set([identity(0).engineId, identity(1).engineId])
  const { tokens, issued } = full(({ engineId }) => needed.has(engineId))
  tokens.issue(identity(limits.peerCountMax))
  expect(issued.slice(0, 3).map((token) => tokens.identify(token))).toEqual([
    ...[rank(0), rank(1)],
    null,
  ])
  const busy = full(() => true)
  expect(() => busy.tokens.issue(identity(limits.peerCountMax))).toThrowError(
    expect.objectContaining({ code: 'ERR_KV_LIMIT' }),
  )
  // Who is known needs no room.
  expect(busy.tokens.issue(identity(5))).toBe(busy.issued[5])
  expect(busy.tokens.issue(identity(5, 1))).not.toBe(busy.issued[5])
})
