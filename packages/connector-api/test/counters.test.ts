import { Counters, ShownCounters } from '@kvferry/connector-api/protocol'
import { expect, test } from 'vitest'

test('totals are shown when one of them changed, or a gauge did, and not again', () => {
  const counters = new Counters(['done', 'failed'])
  const gauges = { open: 0 }
  const shown = new ShownCounters(counters, { open: () => gauges.open })
  expect(shown.hasChanged).toBe(true)
  expect(shown.take()).toEqual({ done: 0, failed: 0, open: 0 })
  expect(shown.hasChanged).toBe(false)
  counters.add('done')
  expect(shown.hasChanged).toBe(true)
  expect(shown.take()).toEqual({ done: 1, failed: 0, open: 0 })
  gauges.open = 3
  expect(shown.hasChanged).toBe(true)
  expect(shown.take()).toEqual({ done: 1, failed: 0, open: 3 })
  expect(shown.hasChanged).toBe(false)
})
