/**
 * One prompt on the producer's scheduler half that may be in the history, as a pure machine: asked about when the
 * engine asks, promised once the worker half has reserved it, restored when the engine has allocated. Knows
 * no keys and no blocks. Called by returning-requests.ts.
 */
import { assert, assertNever, instantPlus, type Instant } from '@kvferry/connector-api'
import { checked, refuse, type Step } from '@kvferry/connector-api/protocol'
import { returningTransitions } from './returning-transitions.ts'

export type ReturningState =
  | { readonly kind: 'new' }
  /** The worker half looks it up from `firstBlock` on; after `giveUpAt` nobody waits for it. */
  | {
      readonly kind: 'asked'
      readonly question: number
      readonly firstBlock: number
      readonly giveUpAt: Instant
    }
  /** `blockCount` blocks are reserved, none if 0; asked again after `renewAt`. */
  | {
      readonly kind: 'answered'
      readonly firstBlock: number
      readonly blockCount: number
      readonly renewAt: Instant
    }
  | { readonly kind: 'restoring' }
  | { readonly kind: 'settled' }
  /** Ended while its blocks are being written: the engine holds them until the worker's report. */
  | { readonly kind: 'aborting' }
  | { readonly kind: 'ended' }

export type ReturningEvent =
  /**
   * The engine asks how many tokens there are beyond those that it has. `question`: the number of what is asked
   * because of it, if anything is.
   */
  | { readonly kind: 'match'; readonly computedTokenCount: number; readonly question: number }
  | { readonly kind: 'answered'; readonly question: number; readonly blockCount: number }
  | { readonly kind: 'allocated'; readonly externalTokenCount: number }
  | { readonly kind: 'received' }
  | { readonly kind: 'finished' }

export type ReturningEffect =
  /** What the engine hears; null: ask again. */
  | { readonly kind: 'reply'; readonly tokens: number | null }
  | { readonly kind: 'ask'; readonly question: number; readonly firstBlock: number }
  /** Give the reservation back, or don't make it. */
  | { readonly kind: 'forget' }
  /** Restore tokens `[tokenStart, tokenEnd)`; the reservation begins at `firstBlock`. */
  | {
      readonly kind: 'restore'
      readonly firstBlock: number
      readonly tokenStart: number
      readonly tokenEnd: number
    }

export interface ReturningContext {
  readonly blockTokens: number
  /** Of the prompt, without its last token: more is never kept. */
  readonly tokenCount: number
  /** Its beginning may be in the history. */
  readonly isKnown: boolean
  /** After so long a reservation is made anew, before it ends by itself. */
  readonly renewAfterMs: number
  /** So long an answer is waited for; then the prompt is computed. */
  readonly giveUpAfterMs: number
}

type ReturningStep = Step<ReturningState, ReturningEffect>
type In<Kind extends ReturningState['kind']> = Extract<ReturningState, { kind: Kind }>

const machine = 'returning prompt'
const stay = (state: ReturningState, ...effects: readonly ReturningEffect[]): ReturningStep => ({
  state,
  effects,
})
const reply = (tokens: number | null): ReturningEffect => ({ kind: 'reply', tokens })
const forget: ReturningEffect = { kind: 'forget' }
const settled: ReturningState = { kind: 'settled' }
const ended: ReturningState = { kind: 'ended' }

function step(
  state: ReturningState,
  event: ReturningEvent,
  now: Instant,
  context: ReturningContext,
): ReturningStep {
  switch (event.kind) {
    case 'match':
      return stepMatch(state, event, now, context)
    case 'answered':
      return stepAnswered(state, event, now, context)
    case 'allocated':
      return stepAllocated(state, event.externalTokenCount, context)
    case 'received':
      return stay(state.kind === 'restoring' ? settled : ended)
    case 'finished':
      if (state.kind === 'restoring') return stay({ kind: 'aborting' })
      return stay(ended, ...(isReserving(state) ? [forget] : []))
    default:
      return assertNever(event)
  }
}

/** The worker half has a reservation, or is making one. */
const isReserving = (state: ReturningState): boolean =>
  state.kind === 'asked' || (state.kind === 'answered' && state.blockCount > 0)

function stepMatch(
  state: ReturningState,
  { computedTokenCount, question }: Extract<ReturningEvent, { kind: 'match' }>,
  now: Instant,
  context: ReturningContext,
): ReturningStep {
  const { blockTokens, tokenCount, isKnown } = context
  if (state.kind === 'settled') return stay(state, reply(0))
  if (state.kind === 'asked') {
    return now < state.giveUpAt ? stay(state, reply(null)) : stay(settled, forget, reply(0))
  }
  // Less than a block is cheaper to compute than to look for.
  const isTail = tokenCount - computedTokenCount < blockTokens
  const firstBlock = Math.floor(computedTokenCount / blockTokens)
  if (state.kind === 'answered') {
    const isUsable =
      firstBlock >= state.firstBlock && (state.blockCount === 0 || now < state.renewAt)
    if (isUsable || isTail)
      return stay(state, reply(isTail ? 0 : offered(state, firstBlock, context)))
  } else if (isTail || !isKnown) {
    return stay(state, reply(0))
  }
  const giveUpAt = instantPlus(now, context.giveUpAfterMs)
  const before = isReserving(state) ? [forget] : []
  return stay(
    { kind: 'asked', question, firstBlock, giveUpAt },
    ...before,
    { kind: 'ask', question, firstBlock },
    reply(null),
  )
}

/** Tokens of the reservation beyond those that the engine has. */
function offered(state: In<'answered'>, firstBlock: number, context: ReturningContext): number {
  const start = firstBlock * context.blockTokens
  return Math.max(0, endOf(state, context) - start)
}

const endOf = (
  { firstBlock, blockCount }: In<'answered'>,
  { blockTokens, tokenCount }: ReturningContext,
): number => Math.min((firstBlock + blockCount) * blockTokens, tokenCount)

function stepAnswered(
  state: ReturningState,
  { question, blockCount }: Extract<ReturningEvent, { kind: 'answered' }>,
  now: Instant,
  { renewAfterMs }: ReturningContext,
): ReturningStep {
  // Of an earlier question, or of a request whose id this one took over.
  if (state.kind !== 'asked' || state.question !== question) return stay(state)
  const renewAt = instantPlus(now, renewAfterMs)
  return stay({ kind: 'answered', firstBlock: state.firstBlock, blockCount, renewAt })
}

function stepAllocated(
  state: ReturningState,
  externalTokenCount: number,
  context: ReturningContext,
): ReturningStep {
  if (externalTokenCount === 0) return stay(settled, ...(isReserving(state) ? [forget] : []))
  if (state.kind !== 'answered') return refuse(machine, state, { kind: 'allocated' })
  const tokenEnd = endOf(state, context)
  const tokenStart = tokenEnd - externalTokenCount
  const isOffered =
    tokenStart % context.blockTokens === 0 && tokenStart >= state.firstBlock * context.blockTokens
  assert(isOffered, `${externalTokenCount} tokens were taken, others were offered`)
  const { firstBlock } = state
  return stay({ kind: 'restoring' }, { kind: 'restore', firstBlock, tokenStart, tokenEnd })
}

/** Pure. @throws InvariantError for an event that the state can't receive, and for tokens that were never offered. */
export const stepReturning = checked(machine, returningTransitions, step)
