/** Giving a handoff back when that fails: how often, when, to whom it is tried again, and when no more. */
import { describe, expect, it } from 'vitest'
import { silentLogger, type Instant } from '@kvferry/connector-api'
import { createSimClock } from '@kvferry/connector-api/testing'
import type { DispatchContext } from '../src/dispatch.ts'
import { parseEnginePeer } from '../src/engine-peer.ts'
import { defaultDeadlines, routerLimits } from '../src/limits.ts'
import { afterAttempt, type AttemptEnd } from '../src/release-attempts.ts'
import { HandoffReleases } from '../src/release-handoff.ts'
import { handoff, peerOf } from './support/fake-engine.ts'

const { releaseAttemptCountMax: attemptMax, releaseDeadlineMs, releaseRetryMs } = routerLimits
const { releaseRetryMsMax } = routerLimits

describe('after an attempt', () => {
  const reason = 'why'
  const failed: AttemptEnd = { kind: 'failed', reason }
  const refused: AttemptEnd = { kind: 'refused', reason }
  const nobody = (isForGood: boolean): AttemptEnd => ({ kind: 'nobody', isForGood, reason })
  const giveUp = { kind: 'give-up', reason }
  const wait = (waitMs: number) => ({ kind: 'try', waitMs })
  const early = { attemptCount: 1, atMs: 0, isLast: false, uniform: 0 }

  it.each([
    ['that was taken', { kind: 'taken' } as const, early, { kind: 'sent' }],
    ['that failed', failed, early, wait(releaseRetryMs / 2)],
    ['that failed, another draw', failed, { ...early, uniform: 0.5 }, wait(releaseRetryMs * 0.75)],
    ['the second that failed', failed, { ...early, attemptCount: 2 }, wait(releaseRetryMs)],
    ['a late one', failed, { ...early, attemptCount: 9 }, wait(releaseRetryMsMax / 2)],
    ['the last one', failed, { ...early, attemptCount: attemptMax }, giveUp],
    ['when the router closes', failed, { ...early, isLast: true }, giveUp],
    ['after which no time is left', failed, { ...early, atMs: releaseDeadlineMs - 50 }, giveUp],
    ['with a little left', failed, { ...early, atMs: releaseDeadlineMs - 51 }, wait(50)],
    ['that was refused', refused, { ...early, attemptCount: 3 }, wait(0)],
    ['that was refused, the last one', refused, { ...early, attemptCount: attemptMax }, giveUp],
    ['that found nobody', nobody(false), early, wait(releaseRetryMs / 2)],
    ['that found none but those that had refused', nobody(true), early, giveUp],
  ])('%s', (_, end, { atMs, uniform, ...progress }, expected) => {
    const startedAt = 1_000 as Instant
    const now = (1_000 + atMs) as Instant
    expect(afterAttempt(end, { ...progress, startedAt }, now, uniform)).toEqual(expected)
  })
})

/** What a decode engine does with a release: answers so, breaks the connection, or says nothing. */
type Move = number | 'breaks' | 'is silent'

/** `moves`: of each engine, the last one again and again; one without any is down. */
function world(moves: Readonly<Record<string, readonly Move[]>>) {
  const clock = createSimClock()
  const startedAt = clock.now()
  const left = new Map(Object.entries(moves).map(([name, of]) => [name, [...of]]))
  /** Who was asked when. */
  const asks: (readonly [name: string, atMs: number])[] = []
  const counted: string[] = []
  const sendTo = async (name: string, signal: AbortSignal) => {
    asks.push([name, clock.now() - startedAt])
    const of = left.get(name)!
    const move = of.length > 1 ? of.shift()! : of[0]!
    if (move === 'breaks') throw new Error('other side closed')
    if (typeof move === 'number') return { statusCode: move, body: { dump: async () => {} } }
    return new Promise<never>((_resolve, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason as Error))
    })
  }
  const engines = [...left.keys()].map((name) => ({
    ...{ name, url: `http://${name}` },
    client: { sendAside: ({ signal }: { signal: AbortSignal }) => sendTo(name, signal) },
  }))
  const context = {
    scope: { clock, requestId: 'r' },
    deadlines: defaultDeadlines,
    logger: silentLogger,
    random: { uniform: () => 0 },
    metrics: {
      released: (outcome: string) => counted.push(outcome),
      releaseRetried: () => counted.push('again'),
    },
    fleet: {
      chooseDecode(_prefill: unknown, excluded: ReadonlySet<unknown>) {
        const isUp = ({ name }: { name: string }) => left.get(name)!.length > 0
        const chosen = engines.find((engine) => isUp(engine) && !excluded.has(engine))
        if (chosen === undefined) throw new Error('no engine')
        return chosen
      },
    },
  } as unknown as DispatchContext
  const releases = new HandoffReleases()
  const release = () => releases.release(context, parseEnginePeer(peerOf('producer'))!, handoff)
  const comeUp = (name: string, ...of: Move[]) => left.set(name, of)
  return { asks, clock, comeUp, counted, release, releases }
}

/** So many failed attempts that were followed by another one, and the end. */
const counts = (againCount: number, outcome: string) => [
  ...Array.from({ length: againCount }, () => 'again'),
  outcome,
]

describe('a handoff', () => {
  it.each([503, 429, 500, 408, 'breaks'] as const)(
    'is tried again, later and later, while its engine %s',
    async (move) => {
      const { asks, clock, counted, release } = world({ d0: [move, move, move, 202] })
      release()
      await clock.runUntilIdle()
      expect(asks).toEqual([0, 50, 150, 350].map((atMs) => ['d0', atMs]))
      expect(counted).toEqual(counts(3, 'sent'))
    },
  )

  it('goes to another engine than the one that failed, and comes back to it', async () => {
    const { asks, clock, counted, release } = world({ d0: ['breaks', 202], d1: ['is silent'] })
    release()
    await clock.runUntilIdle()
    const { pollMs } = defaultDeadlines
    expect(asks).toEqual([
      ['d0', 0],
      ['d1', 50],
      ['d0', 50 + pollMs + 100],
    ])
    expect(counted).toEqual(counts(2, 'sent'))
  })

  it('is not offered twice to an engine that will never take it, and at once to the others', async () => {
    const { asks, clock, counted, release } = world({ d0: [404], d1: [404], d2: [202] })
    release()
    await clock.runUntilIdle()
    expect(asks).toEqual(['d0', 'd1', 'd2'].map((name) => [name, 0]))
    expect(counted).toEqual(counts(2, 'sent'))
  })

  it('is given up at once when none will ever take it', async () => {
    const { asks, clock, counted, release } = world({ d0: [404], d1: [400] })
    release()
    await clock.runUntilIdle()
    expect([asks.length, clock.now(), counted]).toEqual([2, 1_000, counts(2, 'failed')])
  })

  it('waits for an engine that comes back', async () => {
    const { asks, clock, comeUp, counted, release } = world({ d0: [] })
    release()
    await clock.advance(5_000)
    expect([asks, counted.includes('failed')]).toEqual([[], false])
    comeUp('d0', 202)
    await clock.advance(releaseRetryMsMax)
    expect([asks.length, counted.at(-1)]).toEqual([1, 'sent'])
  })

  it('is given up after so many attempts', async () => {
    const { asks, clock, counted, release } = world({ d0: ['breaks'] })
    release()
    await clock.runUntilIdle()
    expect(asks).toHaveLength(attemptMax)
    expect(counted).toEqual(counts(attemptMax - 1, 'failed'))
  })

  it('is given up after so long, also while an attempt is under way', async () => {
    const { asks, clock, counted, release } = world({ d0: ['is silent'] })
    release()
    const startedAt = clock.now()
    await clock.runUntilIdle()
    expect(clock.now() - startedAt).toBeLessThanOrEqual(releaseDeadlineMs)
    expect(asks.length).toBeLessThan(attemptMax)
    expect(counted.at(-1)).toBe('failed')
  })

  it('that waits when the router closes has one attempt left, at once', async () => {
    const { asks, clock, counted, release, releases } = world({ d0: ['breaks'] })
    release()
    await clock.advance(60)
    expect(asks).toHaveLength(2)
    await clock.wait(releases.end(), 0)
    expect([asks.length, clock.pendingCount]).toEqual([3, 0])
    expect(counted).toEqual(counts(2, 'failed'))
  })
})

it('as many as the limit wait for another attempt: one more is left to its lease', async () => {
  const { clock, counted, release } = world({ d0: ['breaks'] })
  for (let count = 0; count < routerLimits.releasesOpenMax; count++) release()
  await clock.advance(60)
  release()
  expect(counted.filter((what) => what === 'dropped')).toHaveLength(1)
  await clock.runUntilIdle()
  expect(counted.filter((what) => what === 'failed')).toHaveLength(routerLimits.releasesOpenMax)
})
