/**
 * Whose a prefill engine's handoff is, as a pure machine: nobody's while P computes, the router's when P has answered, a
 * decode engine's once that engine took the request. What is left to the router it gives back, once. Called by
 * sequential-dispatch.ts.
 */
import { assertNever, type KvTransferParams } from '@kvferry/connector-api'
import { checked, refuse, type Step, type TransitionTable } from '@kvferry/connector-api/protocol'

export type HandoffState =
  /** P has the request (G1). One that refuses or fails leaves nothing to look after. */
  | { readonly kind: 'awaited' }
  /** There is none to look after. */
  | { readonly kind: 'absent' }
  /** Nobody but the router has it. */
  | { readonly kind: 'held'; readonly handoff: KvTransferParams }
  /** A decode engine is being asked with it. */
  | { readonly kind: 'offered'; readonly handoff: KvTransferParams }
  /** That engine ends it, whatever becomes of the request. */
  | { readonly kind: 'taken' }
  | { readonly kind: 'returned' }

/** How one ends that was there. */
export type HandoffEnd = Extract<HandoffState['kind'], 'taken' | 'returned'>

export type HandoffEvent =
  /** P computed the prompt. */
  | { readonly kind: 'answered'; readonly handoff: KvTransferParams | null }
  | { readonly kind: 'ask' }
  /** The request ended while P's answer was being read. */
  | { readonly kind: 'leave' }
  /** No decode engine was reached, or what it answered says that it took nothing. */
  | { readonly kind: 'refused' }
  /** One answered the request, or may have it: what comes then it tells P itself. */
  | { readonly kind: 'taken' }

export type HandoffEffect =
  /** The decode engine has to compute the prompt. */
  | { readonly kind: 'recompute' }
  | { readonly kind: 'give-back'; readonly handoff: KvTransferParams }

/**
 * The transitions as data (rows G1 – G10 of the table of Xavier's router; the comments name them). What is not here is
 * refused. The diagram in the README is made from this table.
 */
export const handoffTransitions: TransitionTable<HandoffState['kind'], HandoffEvent['kind']> = {
  // G2, G3
  awaited: { answered: ['held', 'absent'] },
  absent: { ask: ['absent'], leave: ['absent'], refused: ['absent'], taken: ['absent'] },
  // G5; G8
  held: { ask: ['offered'], leave: ['returned'] },
  offered: {
    // G4, G8, G10
    refused: ['returned'],
    // G6, G7, G9
    taken: ['taken'],
  },
  taken: {},
  returned: {},
}

type HandoffStep = Step<HandoffState, HandoffEffect>

const machine = 'handoff'
const stay = (state: HandoffState, ...effects: readonly HandoffEffect[]): HandoffStep => ({
  state,
  effects,
})

function step(state: HandoffState, event: HandoffEvent): HandoffStep {
  switch (state.kind) {
    case 'awaited':
      return stepAwaited(state, event)
    case 'absent':
      return stay(state)
    case 'held':
      if (event.kind === 'ask') return stay({ kind: 'offered', handoff: state.handoff })
      return giveBack(state)
    case 'offered':
      return event.kind === 'taken' ? stay({ kind: 'taken' }) : giveBack(state)
    case 'taken':
    case 'returned':
      return refuse(machine, state, event)
    default:
      return assertNever(state)
  }
}

const giveBack = ({ handoff }: { readonly handoff: KvTransferParams }): HandoffStep =>
  stay({ kind: 'returned' }, { kind: 'give-back', handoff })

function stepAwaited(
  state: Extract<HandoffState, { kind: 'awaited' }>,
  event: HandoffEvent,
): HandoffStep {
  if (event.kind !== 'answered') return refuse(machine, state, event)
  const { handoff } = event
  if (handoff === null) return stay({ kind: 'absent' }, { kind: 'recompute' })
  return stay({ kind: 'held', handoff })
}

/** Pure. @throws InvariantError for an event that the state can't receive. */
export const stepHandoff = checked(machine, handoffTransitions, step)
