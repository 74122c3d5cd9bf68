import { historyCounterNames } from '@kvferry/connector-api'
import { describe, expect, it } from 'vitest'
import {
  historyCounterSources,
  missingCounters,
  readHistoryCounters,
  sumHistory,
} from '../src/experiments/history-counters.ts'

describe('counters of a history', () => {
  it('have one meaning under our names and under the published ones', () => {
    const published = { history_gpu_hit_blocks: 3, history_cpu_hit_blocks: 4, direct_finished: 5 }
    const ours = { historyDeviceHitBlocks: 3, historyHostHitBlocks: 4, ticketsFinished: 5 }
    expect(readHistoryCounters(ours)).toMatchObject({
      ...{ deviceHitBlocks: 3, hostHitBlocks: 4, finished: 5, loads: 0 },
    })
    expect(readHistoryCounters(published)).toEqual(readHistoryCounters(ours))
  })

  it('are looked for under names that the contract has', () => {
    const ours = Object.values(historyCounterSources)
      .flat()
      .filter((name) => name.startsWith('history') && !name.includes('_'))
    expect(ours).toHaveLength(14)
    for (const name of ours) expect(historyCounterNames).toContain(name)
  })

  it('add up where ours tells causes apart', () => {
    const counters = { historyCapacityLimitedByTiers: 1, historyCapacityLimitedByReaders: 2 }
    expect(readHistoryCounters(counters).capacityLimitedBlocks).toBe(3)
  })

  it('are 0 where they are not reported, and that is told apart', () => {
    const counters = { historyHitBlocks: 0 }
    expect(readHistoryCounters(counters)).toMatchObject({ hitBlocks: 0, loads: 0 })
    expect(missingCounters(counters, ['hitBlocks', 'loads'])).toEqual(['historyLoadedRequests'])
    expect(missingCounters({ history_loaded_requests: 0 }, ['loads'])).toEqual([])
  })

  it('add up over trials', () => {
    const one = readHistoryCounters({ demotions: 2 })
    expect(sumHistory([one, one])).toMatchObject({ demotions: 4, loads: 0 })
  })
})
