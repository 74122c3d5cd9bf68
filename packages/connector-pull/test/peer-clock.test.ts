import type { Instant } from '@kvferry/connector-api'
import { expect, test } from 'vitest'
import { PeerClock } from '../src/peer-clock.ts'

const at = (ms: number): Instant => ms as Instant

test('the peer’s reading is set against the middle of the round trip', () => {
  const clock = new PeerClock({ sentAt: at(100), receivedAt: at(100), remoteMs: 5_000 })
  expect(clock.longestUntil(5_030, at(110))).toBe(20)
  expect(clock.longestUntil(5_000, at(110))).toBe(-10)
})

test('half of the round trip may be missing, so the end is never thought too early', () => {
  const clock = new PeerClock({ sentAt: at(100), receivedAt: at(120), remoteMs: 5_000 })
  // Stamped at 100 at the earliest: then the peer's 5030 is our 130; stamped at 120, our 150.
  expect(clock.longestUntil(5_030, at(110))).toBe(40)
})

test('the shortest round trip wins, whenever it came', () => {
  const clock = new PeerClock({ sentAt: at(100), receivedAt: at(140), remoteMs: 5_000 })
  clock.learn({ sentAt: at(200), receivedAt: at(202), remoteMs: 5_101 })
  expect(clock.longestUntil(5_101, at(201))).toBe(1)
  clock.learn({ sentAt: at(300), receivedAt: at(400), remoteMs: 9_999 })
  expect(clock.longestUntil(5_101, at(201))).toBe(1)
})
