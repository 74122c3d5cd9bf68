/** The producer of the model: as ticket-table.ts and write-table.ts carry the machines out. */
import type { Instant } from '@kvferry/connector-api'
import { stepWrite, type WriteEvent } from '@kvferry/connector-api/remote-writes'
import { isSameLife, stepTicket, type TicketEvent } from '../../src/ticket-state.ts'
import { claimantOf, error, fail, send, type ModelState, type Rules } from './state.ts'

/** A deadline is from 0 to 1: time is when its timer rings. */
const [begin, end] = [0 as Instant, 1 as Instant]

/** Whether what was asked for is granted. */
export function ticketEvent(state: ModelState, rules: Rules, event: TicketEvent): boolean {
  if (state.ticket.kind === 'finished') return false
  const isCutOff =
    rules.expiresUnderRead && event.kind === 'timer' && state.ticket.kind === 'reading'
  const isTakenBack =
    rules.takesBackClaims && event.kind === 'undelivered' && state.ticket.kind === 'reading'
  if (isCutOff || isTakenBack) {
    free(state)
    return false
  }
  const now = event.kind === 'timer' ? end : begin
  const context = { unclaimedMs: 1, claimedMs: 1, isRetained: true }
  const { state: next, effects } = stepTicket(state.ticket, event, now, context)
  state.ticket = 'deadline' in next ? { ...next, deadline: end } : next
  let isGranted = false
  for (const effect of effects) {
    if (effect.kind === 'answer') isGranted = effect.isGranted
    else if (effect.kind === 'report-sent') free(state)
    else if (effect.kind === 'retain') {
      state.isCopying = true
      if (rules.freesUnderCopy) free(state)
    }
  }
  return isGranted
}

/** Others' bytes come into the blocks. */
function free(state: ModelState): void {
  if (state.isFreed) fail(state, 'once: the blocks are reported twice')
  if (state.writes.length > 0) fail(state, 'S1: the blocks are freed while a WRITE reads them')
  if (state.isCopying) fail(state, 'S1: the blocks are freed while history copies them')
  state.isFreed = true
}

/** History has copied them. */
export function endCopy(state: ModelState, rules: Rules): void {
  state.isCopying = false
  ticketEvent(state, rules, { kind: 'retention-end' })
}

export function writeEvent(state: ModelState, rules: Rules, event: WriteEvent): void {
  const { part } = state
  if (part === null) return
  const { state: next, effects } = stepWrite(part.state, event, begin, undefined)
  part.state = next
  const { consumer } = part
  for (const effect of effects) {
    if (effect.kind === 'answer') {
      if (part.hasWaiter) send(state, effect.answer, consumer)
      part.hasWaiter = false
    } else if (effect.kind === 'tell-failed') send(state, 'failed', consumer)
    else if (effect.kind === 'end') {
      ticketEvent(state, rules, { kind: 'read-end' })
    }
  }
}

/** Posts the WRITE once both are there. */
export function advance(state: ModelState, rules: Rules): void {
  const { part } = state
  if (part === null || part.state.kind !== 'waiting' || !state.hasEnded) return
  if (state.isFreed) fail(state, 'S2: a WRITE reads blocks that are others’')
  state.writes.push(part.consumer)
  writeEvent(state, rules, { kind: 'post', isLast: true, isNotified: true })
}

/** Its final status. */
export function endWrite(state: ModelState, rules: Rules, isDone: boolean): void {
  const consumer = state.writes.shift()!
  const { isReported } = state.consumers[consumer]!
  if (isReported) fail(state, 'S1: a WRITE ends in blocks that were given back')
  state.consumers[consumer]!.landed = isDone && !state.isFreed ? 'good' : 'bad'
  if (isDone) send(state, 'notification', consumer)
  writeEvent(state, rules, isDone ? { kind: 'write-done' } : { kind: 'write-fail', error })
}

/** What a consumer says. */
export function hear(
  state: ModelState,
  rules: Rules,
  kind: 'claim' | 'register' | 'withdraw' | 'release' | 'leave',
  consumer: number,
): void {
  const claimant = claimantOf(consumer)
  const isOwn = state.part?.consumer === consumer
  switch (kind) {
    case 'claim':
      ticketEvent(state, rules, { kind, claimant })
      return
    case 'register':
      return register(state, rules, consumer)
    case 'withdraw':
      return withdraw(state, rules, consumer)
    case 'release':
      ticketEvent(state, rules, { kind, claimant })
      return
    case 'leave':
      if (isOwn) writeEvent(state, rules, { kind: 'leave' })
      ticketEvent(state, rules, { kind: 'claimant-gone', claimant })
  }
}

function register(state: ModelState, rules: Rules, consumer: number): void {
  const claimant = claimantOf(consumer)
  const isWithdrawn = state.withdrawn.includes(consumer)
  const isGranted = !isWithdrawn && ticketEvent(state, rules, { kind: 'claim', claimant })
  if (!isGranted && rules.servesAnyone && !isWithdrawn && state.hasEnded) {
    state.writes.push(consumer)
    send(state, 'accept', consumer)
    return
  }
  const isTaken = state.part !== null && state.part.consumer !== consumer
  send(state, isGranted && !isTaken ? 'accept' : 'refuse', consumer)
  if (!isGranted || state.part !== null) return
  state.part = { consumer, state: { kind: 'waiting' }, hasWaiter: false }
  const { ticket } = state
  const owner = 'claimant' in ticket ? ticket.claimant : null
  if (owner !== null && !isSameLife(owner, claimant)) fail(state, 'K1: two read one ticket')
  ticketEvent(state, rules, { kind: 'read-start', claimant })
  advance(state, rules)
}

function withdraw(state: ModelState, rules: Rules, consumer: number): void {
  const { part } = state
  if (part?.consumer === consumer) {
    if (rules.answersAtOnce) return send(state, 'withdrawn', consumer)
    part.hasWaiter = true
    return writeEvent(state, rules, { kind: 'withdraw' })
  }
  if (!rules.forgetsWithdrawals) state.withdrawn.push(consumer)
  send(state, 'withdrawn', consumer)
}
