/** One producer rank of the model: as rendezvous-table.ts and write-table.ts carry the machines out. */
import type { Instant } from '@kvferry/connector-api'
import type { PartRecord } from '../../src/rendezvous.ts'
import { stepSource, type SourceEvent } from '../../src/source-state.ts'
import { dueWrite, stepWrite, type WriteEvent } from '@kvferry/connector-api/remote-writes'
import type { Rules } from './rules.ts'
import { chunkCount, error, fail, send, type MessageKind, type ModelState } from './state.ts'

/** A lease lasts from 0 to 1: time is when its timer rings. */
const [begin, end] = [0 as Instant, 1 as Instant]

const isOpen = (part: { kind: string } | null): boolean => part !== null && part.kind !== 'ended'

export function sourceEvent(
  state: ModelState,
  rules: Rules,
  at: number,
  index: number,
  event: SourceEvent,
): void {
  const pair = state.jobs[at]!.pairs[index]!
  const { source, part, isReleased } = pair
  if (source === null || source.kind === 'ended') return
  const now = event.kind === 'timer' ? end : begin
  const isKnown = part !== null || isReleased
  const { state: next, effects } = stepSource(source, event, now, {
    openCount: isOpen(part) && !(rules.freesUnderWrite && event.kind === 'timer') ? 1 : 0,
    endedCount: (part !== null && !isOpen(part) ? 1 : 0) + (isReleased ? 1 : 0),
    expectedCount: isKnown ? 1 : null,
    leaseDurationMs: 1,
  })
  // Every lease ends at 1, however often it was renewed.
  pair.source = next.kind === 'held' ? { kind: 'held', deadline: end } : next
  if (next.kind === 'ended') pair.isOver = true
  for (const effect of effects) {
    if (effect.kind === 'fail-parts')
      writeEvent(state, rules, at, index, { kind: 'source-fail', error })
    else if (effect.kind === 'report-sent') freeSource(state, at, index)
    else if (effect.kind === 'preempt-parts') {
      pair.isPreempting = true
      pair.handedOver = 0
      pair.computed = 0
      writeEvent(state, rules, at, index, { kind: 'preempt' })
      const kind = pair.part?.kind
      if (kind === 'waiting' || kind === 'rewinding') pair.writtenEnd = 0
    }
  }
}

/** The engine gives its blocks to others: what WRITEs still read is no longer the prompt's. */
function freeSource(state: ModelState, at: number, index: number): void {
  const pair = state.jobs[at]!.pairs[index]!
  const isRead = pair.writes.some(({ life }) => life === pair.life)
  if (isRead) fail(state, `job ${at}: the source is freed while a WRITE reads it`)
  pair.generation += 1
}

export function writeEvent(
  state: ModelState,
  rules: Rules,
  at: number,
  index: number,
  event: WriteEvent,
): void {
  const pair = state.jobs[at]!.pairs[index]!
  if (pair.part === null) return
  const { state: next, effects } = stepWrite(pair.part, event, begin, undefined)
  pair.part = next
  const tell = (kind: MessageKind): void =>
    send(state, { kind, job: at, pair: index, life: pair.life })
  for (const effect of effects) {
    switch (effect.kind) {
      case 'answer':
        if (pair.hasWaiter) tell(effect.answer)
        pair.hasWaiter = false
        break
      case 'notify':
        tell('notification')
        break
      case 'tell-done':
      case 'tell-failed':
        // Over the association, if there is one.
        if (pair.isLinked) tell(effect.kind === 'tell-done' ? 'done' : 'failed')
        break
      case 'resume':
        advance(state, rules, at, index)
        break
      case 'end':
        sourceEvent(state, rules, at, index, { kind: 'part-end' })
    }
  }
}

/** Posts what is due: which that is, the shipped function says. */
export function advance(state: ModelState, rules: Rules, at: number, index: number): void {
  const pair = state.jobs[at]!.pairs[index]!
  if (pair.part === null || pair.source === null || pair.isPreempting) return
  const source = {
    tokenEnd: pair.handedOver,
    isComplete: pair.handedOver === chunkCount,
    prompt: { tokenCount: chunkCount },
  }
  const record = { transfer: { source }, state: pair.part, writtenEnd: pair.writtenEnd }
  const due = dueWrite(record as unknown as PartRecord, 1)
  if (due === null) return
  const { range, isLast } = due
  const isNotified = rules.tellsEarly ? isLast : due.isNotified
  pair.writtenEnd = range.end
  const { generation, life } = pair
  const isBehindFence = pair.computed < range.end
  pair.writes.push({ ...range, isNotified, generation, life, isBehindFence })
  writeEvent(state, rules, at, index, { kind: 'post', isLast, isNotified })
}

/** The WRITE's final status. */
export function endWrite(
  state: ModelState,
  rules: Rules,
  at: number,
  index: number,
  which: number,
  isDone: boolean,
): void {
  const pair = state.jobs[at]!.pairs[index]!
  const [write] = pair.writes.splice(which, 1)
  const { start, end: last, generation, life, isNotified, isBehindFence } = write!
  const isPresent = life === pair.life
  const isGood = isDone && isPresent && generation === pair.generation && !isBehindFence
  for (let chunk = start; chunk < last; chunk += 1) pair.landed[chunk] = isGood ? 'good' : 'bad'
  // What a former life wrote, it tells nobody: its machines are not followed any more.
  if (!isPresent) return
  if (isDone && isNotified) send(state, { kind: 'notification', job: at, pair: index, life })
  writeEvent(
    state,
    rules,
    at,
    index,
    isDone ? { kind: 'write-done' } : { kind: 'write-fail', error },
  )
}

export function register(state: ModelState, rules: Rules, at: number, index: number): void {
  const pair = state.jobs[at]!.pairs[index]!
  const isRefused = pair.isOver || pair.isWithdrawn
  send(state, { kind: isRefused ? 'refuse' : 'accept', job: at, pair: index, life: pair.life })
  if (isRefused || pair.part !== null) return
  pair.part = { kind: 'waiting' }
  pair.writtenEnd = 0
  advance(state, rules, at, index)
}

export function answerWithdrawal(state: ModelState, rules: Rules, at: number, index: number): void {
  const pair = state.jobs[at]!.pairs[index]!
  if (pair.part === null || rules.answersAtOnce) {
    if (!rules.forgetsWithdrawals) pair.isWithdrawn = true
    send(state, { kind: 'withdrawn', job: at, pair: index, life: pair.life })
    return
  }
  pair.hasWaiter = true
  writeEvent(state, rules, at, index, { kind: 'withdraw' })
}

/** The engine may give preempted blocks away: nothing whose end would be good news reads them. */
export const canPreempt = (part: { kind: string } | null, rules: Rules): boolean =>
  rules.preemptsAtOnce || part === null || !['writing', 'rewinding'].includes(part.kind)
