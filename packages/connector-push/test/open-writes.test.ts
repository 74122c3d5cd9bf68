/** What must not be said while a WRITE is open, in coincidences that chance alone seldom brings. */
import { limits, type Clock } from '@kvferry/connector-api'
import { wrapFactory } from '@kvferry/connector-api/conformance'
import { createSimClock } from '@kvferry/connector-api/testing'
import { expect, test } from 'vitest'
import { push } from '../src/index.ts'
import { decodeMetadata, encodeMetadata } from '../src/metadata.ts'
import { RendezvousBook, rendezvousCountMax } from '../src/rendezvous-book.ts'
import {
  agentCounters,
  open,
  serve,
  settle,
  until,
  untilServed,
  untilWriting,
} from './fixtures/story.ts'

/** As when a step's metadata is full: what the first step says comes with the second. */
const lateMetadata = wrapFactory(push, {
  scheduler: (scheduler, { engineId }) => {
    let held: Uint8Array | null = null
    return {
      buildConnectorMeta(step) {
        const meta = scheduler.buildConnectorMeta(step)
        if (engineId !== 'p0' || (held === null && step.scheduled.length === 0)) return meta
        if (held === null) {
          held = meta
          return encodeMetadata([])
        }
        const both = encodeMetadata([...decodeMetadata(held), ...decodeMetadata(meta)])
        held = encodeMetadata([])
        return both
      },
    }
  },
})

test('two chunks that are told in one turn are one WRITE: the last tells of all of them', async () => {
  const cluster = await open({
    factory: lateMetadata,
    engines: { options: { progressive: true }, stepMs: 50, stepTokenCountMax: 20 },
  })
  const journey = serve(cluster, { hopMs: 0 })
  await untilServed(cluster, journey)
  expect(journey.consumer!.externalTokenCount).toBe(30)
  expect(agentCounters(cluster, 'p0').transfersPosted).toBe(1)
  await settle(cluster)
})

test('a producer that has closed with an open WRITE does not say that it is withdrawn', async () => {
  const cluster = await open()
  const journey = serve(cluster)
  await untilWriting(cluster)
  const { name } = cluster.engine('d0').host.ranks[0]!.agent
  cluster.world.fabric.faults.stall(name)
  cluster.engine('p0').isClosed = true
  await cluster.world.clock.wait(cluster.engine('p0').host.shutdown(), 60_000)
  cluster.engine('d0').abort(journey.consumer!.id)
  await cluster.world.clock.advance(20_000)
  expect(journey.consumer!.awaited).toEqual(new Set(['received']))
  cluster.world.fabric.faults.unstall(name)
  await until(cluster, () => journey.consumer!.awaited.size === 0, 10_000)
  cluster.auditor.assertClean()
})

const fullBook = (clock: Clock): RendezvousBook => {
  const book = new RendezvousBook(clock)
  for (let count = 0; count < rendezvousCountMax; count++) book.open(`xfer-${count}`)
  return book
}

test('a withdrawal that overtook its registration is remembered, or nothing is promised', () => {
  const clock = createSimClock(1)
  const book = fullBook(clock)
  expect(rendezvousCountMax).toBe(2 * limits.requestCountMax)
  expect(book.refuseLater('xfer-0', 'key')).toBe(true)
  expect(book.find('xfer-0')!.withdrawn).toEqual(new Set(['key']))
  expect(book.refuseLater('xfer-new', 'key')).toBe(false)
  expect(book.find('xfer-new')).toBe(undefined)
})

test('a closed book takes nothing on, so that it may promise, and leaves no timer', () => {
  const clock = createSimClock(1)
  const book = fullBook(clock)
  book.refuseLater('xfer-0', 'key')
  book.close()
  expect(book.refuseLater('xfer-new', 'key')).toBe(true)
  expect(clock.pendingCount).toBe(0)
})
