import type { Instant } from '@kvferry/connector-api'
import { PeerClock } from '@kvferry/connector-api/protocol'
import { expect, test } from 'vitest'

const at = (ms: number): Instant => ms as Instant

test('the peer’s reading is set against the middle of the round trip', () => {
  const clock = new PeerClock({ sentAt: at(100), receivedAt: at(100), remoteMs: 5_000 })
  expect(clock.longestUntil(5_030, at(110))).toBeCloseTo(20, 1)
  expect(clock.longestUntil(5_000, at(110))).toBeCloseTo(-10, 1)
})

test('half of the round trip may be missing, so the end is never thought too early', () => {
  const clock = new PeerClock({ sentAt: at(100), receivedAt: at(120), remoteMs: 5_000 })
  // Stamped at 100 at the earliest: then the peer's 5030 is our 130; stamped at 120, our 150.
  expect(clock.longestUntil(5_030, at(120))).toBe(30)
})

test('the shortest round trip wins, whenever it came', () => {
  const clock = new PeerClock({ sentAt: at(100), receivedAt: at(140), remoteMs: 5_000 })
  clock.learn({ sentAt: at(200), receivedAt: at(202), remoteMs: 5_101 })
  expect(clock.longestUntil(5_101, at(202))).toBe(0)
  clock.learn({ sentAt: at(300), receivedAt: at(400), remoteMs: 9_999 })
  expect(clock.longestUntil(5_101, at(202))).toBe(0)
})

test('clocks drift: an old sample is worth less, and gives way to a newer one', () => {
  const clock = new PeerClock({ sentAt: at(0), receivedAt: at(0), remoteMs: 0 })
  const hourMs = 3_600_000
  // No end is thought to be over that may not be.
  expect(clock.longestUntil(hourMs, at(hourMs))).toBeCloseTo(3_600)
  clock.learn({ sentAt: at(hourMs), receivedAt: at(hourMs + 20), remoteMs: hourMs + 300 })
  expect(clock.longestUntil(hourMs + 300, at(hourMs + 20))).toBe(0)
})
