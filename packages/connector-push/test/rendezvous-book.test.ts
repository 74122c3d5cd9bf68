import { ConnectorError } from '@kvferry/connector-api'
import { createSimClock } from '@kvferry/connector-api/testing'
import { protocolLimits } from '@kvferry/connector-api/protocol'
import { expect, test } from 'vitest'
import { pushLimits } from '../src/limits.ts'
import { RendezvousBook, rendezvousCountMax } from '../src/rendezvous-book.ts'
import { sourceContext, type PartRecord, type Rendezvous } from '../src/rendezvous.ts'

const over = new ConnectorError('ERR_KV_LEASE_EXPIRED', 'x', {
  requestId: 'r' as ConnectorError<'ERR_KV_LEASE_EXPIRED'>['details']['requestId'],
})
const open = { state: { kind: 'waiting' } } as PartRecord
const ended = { state: { kind: 'ended', outcome: 'written' } } as PartRecord

/** As full as it gets, with transfers that are over. */
function createFullBook(): { book: RendezvousBook; meetings: Rendezvous[] } {
  const book = new RendezvousBook(createSimClock(1))
  const meetings = Array.from({ length: rendezvousCountMax }, (_, at) => {
    const meeting = book.open(`t${at}`)
    meeting.over = over
    meeting.parts.set(0, ended)
    book.forgetLater(meeting)
    return meeting
  })
  return { book, meetings }
}

test('a full book forgets what has been over for longest, and takes on what begins', () => {
  const { book, meetings } = createFullBook()
  book.forgetLater(meetings[0]!)
  expect(book.makeRoom()).toBe(true)
  book.open('next')
  expect(book.size).toBe(rendezvousCountMax)
  expect(book.find('t1')).toBe(undefined)
  expect(book.find('t0')).toBe(meetings[0])
})

test('what is open, begins anew, or was promised is not forgotten for want of room', () => {
  const { book, meetings } = createFullBook()
  meetings[0]!.parts.set(1, open)
  meetings[1]!.source = {} as Rendezvous['source']
  meetings[1]!.over = null
  expect(book.refuseLater('t2', 'key')).toBe(true)
  book.open('next')
  for (const id of ['t0', 't1', 't2']) expect(book.find(id), id).not.toBe(undefined)
  expect(book.find('t3')).toBe(undefined)
})

test('a book full of what is needed has no room', () => {
  const { book, meetings } = createFullBook()
  for (const { parts } of meetings) parts.set(1, open)
  expect(book.makeRoom()).toBe(false)
  expect(book.refuseLater('next', 'key')).toBe(false)
  expect(book.find('next')).toBe(undefined)
})

test('a rank that was given up, and then asked for, is one part', () => {
  const meeting = new RendezvousBook(createSimClock(1)).open('t')
  meeting.releasedRanks.add(0).add(1)
  expect(sourceContext(meeting, 500)).toMatchObject({ openCount: 0, endedCount: 2 })
  meeting.parts.set(0, ended)
  expect(sourceContext(meeting, 500)).toMatchObject({ openCount: 0, endedCount: 2 })
})

test('no more promises are kept for one transfer than a consumer has ranks', () => {
  const book = new RendezvousBook(createSimClock(1))
  const promise = (at: number) => book.refuseLater('t', `key${at}`)
  for (let at = 0; at < protocolLimits.tpSizeMax; at++) expect(promise(at)).toBe(true)
  expect(promise(protocolLimits.tpSizeMax)).toBe(false)
  expect(promise(0)).toBe(true)
})

test('what is over is forgotten after its time, and leaves no timer', async () => {
  const clock = createSimClock(1)
  const book = new RendezvousBook(clock)
  book.forgetLater(book.open('over'))
  expect(book.refuseLater('withdrawn before it came', 'key')).toBe(true)
  await clock.advance(pushLimits.rendezvousRetentionMs - 1)
  expect(book.size).toBe(2)
  await clock.advance(1)
  expect([book.size, clock.pendingCount]).toEqual([0, 0])
})

test('what is open when its time has come is asked again, and forgotten once it has ended', async () => {
  const clock = createSimClock(1)
  const book = new RendezvousBook(clock)
  const meeting = book.open('t')
  meeting.parts.set(0, open)
  book.forgetLater(meeting)
  await clock.advance(5 * pushLimits.rendezvousRetentionMs)
  expect(book.find('t')).toBe(meeting)
  meeting.parts.set(0, ended)
  await clock.advance(pushLimits.rendezvousRetentionMs)
  expect([book.size, clock.pendingCount]).toEqual([0, 0])
})
