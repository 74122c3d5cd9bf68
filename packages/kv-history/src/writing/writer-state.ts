/**
 * The one writer, as a pure step function: when a chunk may start, and how a request's writing ends. The
 * shell (history-writer.ts) stages, copies and publishes, and reports back.
 *
 * The deadline is soft: it is looked at before every chunk, whether or not a direction is busy, and a chunk
 * that runs is waited for. Only a chunk whose copies don't end at all is given up on: the request's blocks
 * are free then (they were only read), and the writer takes nothing new until those copies have ended.
 */
import { assert, instantPlus, type Instant } from '@kvferry/connector-api'
import { checked, type Step, type TransitionTable } from '@kvferry/connector-api/protocol'

export type WriterState =
  | { readonly kind: 'idle' }
  /** Between two chunks. */
  | { readonly kind: 'ready'; readonly job: WriterJob }
  | { readonly kind: 'copying'; readonly job: WriterJob }
  /** The request is over; copies of its last chunk may still touch their slots. */
  | { readonly kind: 'overdue' }

export interface WriterJob {
  readonly deadline: Instant
  /** Candidates that are not staged yet. */
  readonly remaining: number
}

export type WriterEvent =
  | { readonly kind: 'offered'; readonly candidateCount: number }
  /** Look whether the next chunk may start. */
  | { readonly kind: 'checked'; readonly isBusy: boolean; readonly isClosing: boolean }
  /** The chunk is published, but for `unplaced` of its blocks, which lost their room. */
  | { readonly kind: 'chunk-done'; readonly unplaced: number }
  | { readonly kind: 'chunk-failed' }
  /** The chunk has not ended in time. */
  | { readonly kind: 'chunk-overdue' }

export type WriterDrop = 'deadline' | 'closing' | 'readers'

export type WriterEffect =
  /** Send `checked` at once. */
  | { readonly kind: 'check' }
  /** Send `checked` later; 0: after whatever else is due. */
  | { readonly kind: 'check-later'; readonly delayMs: number }
  | { readonly kind: 'copy-chunk'; readonly blockCount: number }
  | { readonly kind: 'count-dropped'; readonly reason: WriterDrop; readonly blockCount: number }
  | { readonly kind: 'count-failure' }
  /** The request's blocks are free. */
  | { readonly kind: 'end-job' }

export interface WriterContext {
  readonly writerDeadlineMs: number
  readonly writerRecheckMs: number
  /** How many blocks the next chunk may have, by the store as it is now; at least 1. */
  chunkLengthMax(): number
}

export const writerTransitions: TransitionTable<WriterState['kind'], WriterEvent['kind']> = {
  idle: { offered: ['ready'] },
  ready: { checked: ['ready', 'copying', 'idle'] },
  copying: {
    'chunk-done': ['ready', 'idle'],
    'chunk-failed': ['idle'],
    'chunk-overdue': ['overdue'],
  },
  overdue: { 'chunk-done': ['idle'], 'chunk-failed': ['idle'] },
}

type WriterStep = Step<WriterState, WriterEffect>

export const stepWriter = checked<WriterState, WriterEvent, WriterEffect, WriterContext>(
  'history writer',
  writerTransitions,
  step,
)

function step(
  state: WriterState,
  event: WriterEvent,
  now: Instant,
  context: WriterContext,
): WriterStep {
  switch (event.kind) {
    case 'offered': {
      const deadline = instantPlus(now, context.writerDeadlineMs)
      const job = { deadline, remaining: event.candidateCount }
      return { state: { kind: 'ready', job }, effects: [{ kind: 'check' }] }
    }
    case 'checked':
      assert(state.kind === 'ready', 'checked between chunks')
      return stepChecked(state.job, event, now, context)
    case 'chunk-done':
      return state.kind === 'copying' ? stepDone(state.job, event.unplaced) : idle([])
    case 'chunk-failed':
      return idle(state.kind === 'copying' ? [{ kind: 'count-failure' }, { kind: 'end-job' }] : [])
    case 'chunk-overdue':
      return {
        state: { kind: 'overdue' },
        effects: [{ kind: 'count-failure' }, { kind: 'end-job' }],
      }
  }
}

function stepChecked(
  job: WriterJob,
  { isBusy, isClosing }: { readonly isBusy: boolean; readonly isClosing: boolean },
  now: Instant,
  context: WriterContext,
): WriterStep {
  if (isClosing) return drop('closing', job.remaining)
  if (now >= job.deadline) return drop('deadline', job.remaining)
  if (isBusy) {
    const again = { kind: 'check-later', delayMs: context.writerRecheckMs } as const
    return { state: { kind: 'ready', job }, effects: [again] }
  }
  const chunkLength = Math.min(job.remaining, context.chunkLengthMax())
  assert(chunkLength >= 1, 'a chunk of nothing')
  return {
    state: { kind: 'copying', job: { ...job, remaining: job.remaining - chunkLength } },
    effects: [{ kind: 'copy-chunk', blockCount: chunkLength }],
  }
}

function stepDone(job: WriterJob, unplaced: number): WriterStep {
  if (unplaced > 0) return drop('readers', unplaced + job.remaining)
  if (job.remaining === 0) return idle([{ kind: 'end-job' }])
  return { state: { kind: 'ready', job }, effects: [{ kind: 'check-later', delayMs: 0 }] }
}

function drop(reason: WriterDrop, blockCount: number): WriterStep {
  return idle([{ kind: 'count-dropped', reason, blockCount }, { kind: 'end-job' }])
}

const idle = (effects: readonly WriterEffect[]): WriterStep => ({
  state: { kind: 'idle' },
  effects,
})
