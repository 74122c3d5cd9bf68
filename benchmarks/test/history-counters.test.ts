import { historyCounterNames as counted } from '@kvferry/connector-api'
import { describe, expect, it } from 'vitest'
import {
  historyNames,
  missingCounters,
  readHistoryCounters,
  sumHistory,
} from '../src/experiments/history-counters.ts'

describe('counters of a history', () => {
  it('have one meaning in each of their spellings', () => {
    const published = { history_gpu_hit_blocks: 3, history_cpu_hit_blocks: 4, direct_finished: 5 }
    const camel = { historyGpuHitBlocks: 3, historyCpuHitBlocks: 4, directFinished: 5 }
    const tiers = { historyDeviceHitBlocks: 3, historyHostHitBlocks: 4, directFinished: 5 }
    const expected = readHistoryCounters(published)
    expect(expected).toMatchObject({ deviceHitBlocks: 3, hostHitBlocks: 4, finished: 5 })
    expect(readHistoryCounters(camel)).toEqual(expected)
    expect(readHistoryCounters(tiers)).toEqual(expected)
  })

  it('are those that the history of this project counts', () => {
    const counters = Object.fromEntries(counted.map((name) => [name, 1]))
    const read = readHistoryCounters(counters)
    const ofHistory = historyNames.filter((name) => {
      return !['registered', 'finished', 'expired', 'networkHostBatches'].includes(name)
    })
    for (const name of ofHistory) {
      expect(read[name], name).toBe(name === 'capacityLimitedBlocks' ? 3 : 1)
    }
  })

  it('are 0 where they are not reported, and that is told apart', () => {
    const counters = { historyHitBlocks: 0 }
    expect(readHistoryCounters(counters)).toMatchObject({ hitBlocks: 0, loads: 0 })
    expect(missingCounters(counters, ['hitBlocks', 'loads'])).toEqual(['history_loaded_requests'])
  })

  it('do not mix up the host tier with host batches over the network', () => {
    expect(readHistoryCounters({ hostBatches: 2 })).toMatchObject({
      networkHostBatches: 2,
      hostHitBlocks: 0,
    })
  })

  it('add up over trials', () => {
    const one = readHistoryCounters({ demotions: 2 })
    expect(sumHistory([one, one])).toMatchObject({ demotions: 4, loads: 0 })
  })
})
