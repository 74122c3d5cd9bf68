/** What the ranks of an engine say of themselves, as its one worker half says it. */
import type { ConnectorWorker, LoadSample, StatsSnapshot } from '@kvferry/connector-api'
import { expect, it } from 'vitest'
import { RankGroup } from '../src/core/rank-group.ts'

const sample = (requestId: string) => ({ requestId }) as unknown as LoadSample

/** One snapshot a call; then nothing has changed. */
function workerOf(...snapshots: (StatsSnapshot | null)[]) {
  const left = [...snapshots]
  return { getStats: () => left.shift() ?? null } as unknown as ConnectorWorker
}

const groupOf = (...workers: ConnectorWorker[]) =>
  new RankGroup(workers.map((worker) => ({ worker, agent: {} as never })))

it('statistics are summed over the ranks, also those of a rank that says nothing new (25)', () => {
  const group = groupOf(
    workerOf(
      { loads: [sample('a')], counters: { loadsDone: 1, leasesOpen: 4 } },
      { loads: [], counters: { loadsDone: 2, leasesOpen: 0 } },
    ),
    workerOf({ loads: [sample('a')], counters: { loadsDone: 1, messagesRefused: 5 } }, null, {
      loads: [sample('b')],
      counters: { loadsDone: 3, messagesRefused: 5 },
    }),
  )
  expect(group.getStats()).toEqual({
    loads: [sample('a'), sample('a')],
    counters: { loadsDone: 2, leasesOpen: 4, messagesRefused: 5 },
  })
  expect(group.getStats()).toEqual({
    loads: [],
    counters: { loadsDone: 3, leasesOpen: 0, messagesRefused: 5 },
  })
  expect(group.getStats()).toEqual({
    loads: [sample('b')],
    counters: { loadsDone: 5, leasesOpen: 0, messagesRefused: 5 },
  })
})

it('nothing changed on any rank: nothing is said (25)', () => {
  expect(groupOf(workerOf(), workerOf()).getStats()).toBe(null)
})
