/**
 * A prompt that may be in the history, as a model for the explorer: the machines of both halves, metadata and
 * reports between them, an engine that asks, allocates and gives up, and a history that is pinned, read and forgets.
 * What a history does with its blocks is explored in kv-history; here it has some or none.
 */
import { type AnyConnectorError, type HistoryLease, type Instant } from '@kvferry/connector-api'
import type { Model, ModelStep } from '@kvferry/connector-api/testing'
import {
  stepReservation,
  type ReservationEvent,
  type ReservationState,
} from '../../src/history/reservation-state.ts'
import {
  stepReturning,
  type ReturningEvent,
  type ReturningState,
} from '../../src/history/returning-state.ts'

/** What the code around the machines sees to, each of it to be broken. */
export interface ReturningRules {
  /** Nobody tells the worker half that a reservation isn't needed. */
  readonly forgetsToForget: boolean
  /** A restore that was given up is reported while it is being copied. */
  readonly reportsAtOnce: boolean
  /** A restore whose reservation has gone is not reported. */
  readonly ignoresGone: boolean
}

export const shippedReturningRules: ReturningRules = {
  ...{ forgetsToForget: false, reportsAtOnce: false, ignoresGone: false },
}

export interface ReturningBounds {
  /** How often a reservation's time is over. */
  readonly times: number
  /** Restores that fail, or don't end in time. */
  readonly faults: number
  /** Whether the history may close in between. */
  readonly closes: number
  /** How often the worker half is asked. */
  readonly questions: number
}

type Down = { kind: 'ask'; question: number } | { kind: 'forget' } | { kind: 'restore' }
type Up = { kind: 'matched'; question: number; blockCount: number } | { kind: 'received' }

interface ReturningModelState {
  engine: 'waiting' | 'loading' | 'running' | 'gone'
  scheduler: ReturningState
  /** Null: the worker half knows nothing of it. */
  worker: ReservationState | null
  down: Down[]
  up: Up[]
  /** Open leases: when they end, and whether they are being read. */
  leases: { name: HistoryLease; end: number; isRead: boolean }[]
  isCopying: boolean
  /** The engine waits for the report on blocks that may be written. */
  holdsBlocks: boolean
  isClosed: boolean
  now: number
  questions: number
  left: { times: number; faults: number; closes: number; questions: number }
  problem: string | null
}

type State = ReturningModelState
type Act = (state: State) => void

const blockTokens = 16
const context = {
  ...{ blockTokens, tokenCount: 2 * blockTokens, isKnown: true },
  ...{ renewAfterMs: 1, giveUpAfterMs: 2 },
}
const leaseMs = 2
const error = { code: 'ERR_KV_TRANSFER_FAILED' } as unknown as AnyConnectorError

export function createReturningModel(rules: ReturningRules, bounds: ReturningBounds): Model<State> {
  const initial: State = {
    ...{ engine: 'waiting', scheduler: { kind: 'new' }, worker: null, down: [], up: [] },
    ...{ leases: [], isCopying: false, holdsBlocks: false, isClosed: false, now: 0 },
    ...{ questions: 0, left: { ...bounds }, problem: null },
  }
  return {
    initial,
    key: (state) => JSON.stringify(state),
    judge,
    judgeEnd,
    steps: function* (state) {
      for (const [name, act] of acts(state, rules)) yield step(state, name, act)
    },
  }
}

function step(state: State, name: string, act: Act): ModelStep<State> {
  return {
    name,
    take() {
      const next = JSON.parse(JSON.stringify(state)) as State
      act(next)
      return next
    },
  }
}

function judge({ problem, engine, scheduler, down, up, isCopying }: State): string | null {
  const isQuiet = down.length === 0 && up.length === 0 && !isCopying
  if (isQuiet && engine === 'loading') return 'V1: it waits for blocks that nobody writes'
  if (isQuiet && engine === 'waiting' && scheduler.kind === 'asked') {
    return 'V1: it waits for an answer that doesn’t come'
  }
  return problem
}

function judgeEnd({ scheduler, worker, leases, holdsBlocks }: State): string | null {
  if (scheduler.kind !== 'ended') return `V2: the scheduler half has it ${scheduler.kind} for ever`
  if (leases.length > 0) return 'V2: a lease is open for ever'
  if (worker !== null) return `V2: the worker half has it ${worker.kind} for ever`
  return holdsBlocks ? 'V2: blocks are held for ever' : null
}

/** What the engine is told, if it asked. */
function tell(state: State, rules: ReturningRules, event: ReturningEvent): number | null {
  // It is forgotten: what comes for it later is nobody's.
  if (state.scheduler.kind === 'ended') return null
  const { state: next, effects } = stepReturning(
    state.scheduler,
    event,
    state.now as Instant,
    context,
  )
  state.scheduler = next
  let tokens: number | null = null
  for (const effect of effects) {
    if (effect.kind === 'reply') tokens = effect.tokens
    else if (effect.kind === 'ask') {
      state.left.questions -= 1
      state.down.push({ kind: 'ask', question: effect.question })
    } else if (effect.kind === 'restore') state.down.push({ kind: 'restore' })
    else if (!rules.forgetsToForget) state.down.push({ kind: 'forget' })
  }
  return tokens
}

function reserve(state: State, event: ReservationEvent): void {
  if (state.worker === null) return
  const { state: next, effects } = stepReservation(
    state.worker,
    event,
    state.now as Instant,
    undefined,
  )
  state.worker = next.kind === 'ended' ? null : next
  for (const effect of effects) {
    if (effect.kind === 'release') close(state, effect.lease)
    else if (effect.kind === 'copy') copy(state, effect.lease)
    else if (effect.kind === 'report') state.up.push({ kind: 'received' })
  }
}

const close = (state: State, lease: HistoryLease): void => {
  state.leases = state.leases.filter(({ name, isRead }) => name !== lease || isRead)
}

function copy(state: State, lease: HistoryLease): void {
  expire(state)
  const found = state.leases.find(({ name }) => name === lease)
  // It has gone: the request is computed.
  if (found === undefined) return reserve(state, { kind: 'restore-end', error })
  found.isRead = true
  state.isCopying = true
}

function endCopy(state: State, isGood: boolean): void {
  state.isCopying = false
  state.leases = state.leases.filter(({ isRead }) => !isRead)
  reserve(state, { kind: 'restore-end', error: isGood ? null : error })
}

const expire = (state: State): void => {
  state.leases = state.leases.filter(({ end, isRead }) => isRead || end > state.now)
}

function* acts(state: State, rules: ReturningRules): Iterable<[string, Act]> {
  yield* engineActs(state, rules)
  if (state.down.length > 0) {
    for (const blockCount of state.down[0]!.kind === 'ask' ? [0, 1, 2] : [0]) {
      const name = `the worker half hears: ${state.down[0]!.kind} (${blockCount} blocks)`
      yield [name, (next) => hear(next, rules, next.down.shift()!, blockCount)]
    }
  }
  if (state.up.length > 0) yield [`reported: ${state.up[0]!.kind}`, (next) => report(next, rules)]
  if (state.isCopying) {
    yield ['the copies end', (next) => endCopy(next, true)]
    if (state.left.faults > 0) {
      yield ['the copies fail', (next) => endCopy(spend(next, 'faults'), false)]
      yield ['the copies are late', (next) => reserve(spend(next, 'faults'), { kind: 'overdue' })]
    }
  }
  if (state.left.times > 0) yield ['time passes', (next) => void (spend(next, 'times').now += 1)]
  if (state.left.closes > 0) yield ['the history closes', closeHistory]
}

const spend = (state: State, what: keyof State['left']): State => {
  state.left[what] -= 1
  return state
}

function* engineActs(state: State, rules: ReturningRules): Iterable<[string, Act]> {
  const { engine } = state
  for (const computed of engine === 'waiting' ? [0, blockTokens] : []) {
    if (state.left.questions === 0 && asksAnew(state, computed)) continue
    for (const hasRoom of [false, true]) {
      const name = `asks with ${computed} tokens${hasRoom ? ', and has room' : ''}`
      yield [name, (next) => ask(next, rules, computed, hasRoom)]
    }
  }
  if (engine === 'waiting') {
    yield ['begins without it', (next) => allocate(next, rules, 0)]
  }
  if (engine !== 'gone') yield ['ends, or is given up', (next) => finish(next, rules)]
}

/** Whether the worker half would be asked. */
function asksAnew({ scheduler, now }: State, computedTokenCount: number): boolean {
  const event = { kind: 'match', computedTokenCount, question: 0 } as const
  const { effects } = stepReturning(scheduler, event, now as Instant, context)
  return effects.some(({ kind }) => kind === 'ask')
}

function ask(state: State, rules: ReturningRules, computed: number, hasRoom: boolean): void {
  if (asksAnew(state, computed)) state.questions += 1
  const event = { kind: 'match', computedTokenCount: computed, question: state.questions } as const
  const tokens = tell(state, rules, event)
  if (tokens !== null && hasRoom) allocate(state, rules, tokens)
}

function allocate(state: State, rules: ReturningRules, externalTokenCount: number): void {
  tell(state, rules, { kind: 'allocated', externalTokenCount })
  state.engine = externalTokenCount > 0 ? 'loading' : 'running'
  state.holdsBlocks = externalTokenCount > 0
}

function finish(state: State, rules: ReturningRules): void {
  state.engine = 'gone'
  tell(state, rules, { kind: 'finished' })
  if (rules.reportsAtOnce && state.isCopying) state.up.push({ kind: 'received' })
}

function hear(state: State, rules: ReturningRules, message: Down, blockCount: number): void {
  if (message.kind === 'forget') return reserve(state, { kind: 'forget' })
  if (message.kind === 'restore') {
    const isGone = state.worker === null
    if (isGone && !rules.ignoresGone) state.up.push({ kind: 'received' })
    return reserve(state, { kind: 'restore', blockIds: new Uint32Array() })
  }
  expire(state)
  const { question } = message
  state.worker ??= { kind: 'none' }
  const found = state.isClosed ? 0 : blockCount
  if (found === 0) reserve(state, { kind: 'missing' })
  else {
    const lease = `history:${question}` as HistoryLease
    state.leases.push({ name: lease, end: state.now + leaseMs, isRead: false })
    reserve(state, { kind: 'found', lease })
  }
  state.up.push({ kind: 'matched', question, blockCount: found })
}

function report(state: State, rules: ReturningRules): void {
  const message = state.up.shift()!
  if (message.kind === 'matched') {
    const { question, blockCount } = message
    return void tell(state, rules, { kind: 'answered', question, blockCount })
  }
  if (state.isCopying) state.problem ??= 'S1: the blocks are the engine’s while they are written'
  if (!state.holdsBlocks) state.problem ??= 'once: the blocks are reported twice'
  state.holdsBlocks = false
  if (state.engine === 'loading') state.engine = 'running'
  tell(state, rules, { kind: 'received' })
}

function closeHistory(state: State): void {
  spend(state, 'closes').isClosed = true
  reserve(state, { kind: 'close' })
  state.leases = state.leases.filter(({ isRead }) => isRead)
}
