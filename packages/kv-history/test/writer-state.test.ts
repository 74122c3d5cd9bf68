import { InvariantError, type Instant } from '@kvferry/connector-api'
import { describe, expect, test } from 'vitest'
import {
  stepWriter,
  writerTransitions,
  type WriterEvent,
  type WriterState,
} from '../src/writing/writer-state.ts'

const context = { writerDeadlineMs: 10, writerRecheckMs: 1, chunkLengthMax: () => 2 }
const at = (ms: number): Instant => ms as Instant
const job = { deadline: at(10), remaining: 3 }

const states: Record<WriterState['kind'], WriterState> = {
  idle: { kind: 'idle' },
  ready: { kind: 'ready', job },
  copying: { kind: 'copying', job },
  overdue: { kind: 'overdue' },
}
const events: Record<WriterEvent['kind'], WriterEvent> = {
  offered: { kind: 'offered', candidateCount: 3 },
  checked: { kind: 'checked', isBusy: false, isClosing: false },
  'chunk-done': { kind: 'chunk-done', unplaced: 0 },
  'chunk-failed': { kind: 'chunk-failed' },
  'chunk-overdue': { kind: 'chunk-overdue' },
}

describe('the writer machine', () => {
  const pairs = Object.values(states).flatMap((state) =>
    Object.values(events).map((event) => [state.kind, event.kind, state, event] as const),
  )
  test.each(pairs)('%s, %s: as the table says', (stateKind, eventKind, state, event) => {
    const targets = writerTransitions[stateKind][eventKind]
    const run = () => stepWriter(state, event, at(5), context)
    if (targets === undefined) expect(run).toThrow(InvariantError)
    else expect(targets).toContain(run().state.kind)
  })

  test('closing comes before the deadline, the deadline before a busy direction', () => {
    const check = (isBusy: boolean, isClosing: boolean, now: number) =>
      stepWriter(states.ready, { kind: 'checked', isBusy, isClosing }, at(now), context).effects[0]
    expect(check(true, true, 10)).toMatchObject({ reason: 'closing', blockCount: 3 })
    expect(check(true, false, 10)).toMatchObject({ reason: 'deadline', blockCount: 3 })
    expect(check(true, false, 9)).toEqual({ kind: 'check-later', delayMs: 1 })
    expect(check(false, false, 9)).toEqual({ kind: 'copy-chunk', blockCount: 2 })
  })

  test('what lost its room takes the rest with it', () => {
    const event = { kind: 'chunk-done', unplaced: 1 } as const
    expect(stepWriter(states.copying, event, at(5), context).effects).toEqual([
      { kind: 'count-dropped', reason: 'readers', blockCount: 4 },
      { kind: 'end-job' },
    ])
  })

  test('every way out of a request ends it once', () => {
    for (const [stateKind, eventKind, state, event] of pairs) {
      if (writerTransitions[stateKind][eventKind] === undefined) continue
      const result = stepWriter(state, event, at(20), context)
      const ends = result.effects.filter(({ kind }) => kind === 'end-job').length
      const hadJob = state.kind === 'ready' || state.kind === 'copying'
      const hasJob = result.state.kind === 'ready' || result.state.kind === 'copying'
      expect(ends, `${stateKind} ${eventKind}`).toBe(hadJob && !hasJob ? 1 : 0)
    }
  })
})
