/**
 * One registration on the consumer, as a pure machine: blocks that one rank of the producer was asked to
 * write into. Once the question has left, the producer may write at any moment, so the registration ends
 * only on its word (written, failed, withdrawn) or on proof that its process is gone (architecture, "When
 * may a block be reused?"). Silence never ends it. Called by load-table.ts.
 */
import { assertNever, type AnyConnectorError } from '../index.ts'
import { checked, refuse, type Step, type TransitionTable } from '../protocol/index.ts'

export type RegistrationState =
  /** The producer has not been asked: nobody writes. */
  | { readonly kind: 'connecting' }
  /** Asked; its answer is on its way. */
  | { readonly kind: 'registering' }
  | { readonly kind: 'registered' }
  /** The producer was asked not to write any more. */
  | { readonly kind: 'withdrawing'; readonly reason: AnyConnectorError }
  /** That question found no answer: the blocks are in quarantine until one is had, or proof. */
  | { readonly kind: 'doubtful'; readonly reason: AnyConnectorError }
  | { readonly kind: 'written' }
  /** Nothing writes any more, and not everything was written. */
  | { readonly kind: 'failed'; readonly error: AnyConnectorError }

export type RegistrationEvent =
  | { readonly kind: 'link-ready' }
  | { readonly kind: 'link-fail'; readonly error: AnyConnectorError }
  | { readonly kind: 'accept' }
  /** The producer says that it took nothing on. */
  | { readonly kind: 'refuse'; readonly error: AnyConnectorError }
  /** The way to the producer is lost, or it does not answer: it may write all the same. */
  | { readonly kind: 'silence'; readonly error: AnyConnectorError }
  /** The notification of the last WRITE, or the producer's word: all bytes have landed. */
  | { readonly kind: 'write-end' }
  /** The producer's word that it failed, and that nothing of it writes any more. */
  | { readonly kind: 'producer-fail'; readonly error: AnyConnectorError }
  /** The engine gave the request up, its time is over, or another rank's part failed. */
  | { readonly kind: 'withdraw'; readonly reason: AnyConnectorError }
  /** The producer's answer to a withdrawal. */
  | { readonly kind: 'withdraw-end' }
  /** The other answer: its WRITE has no final status yet. */
  | { readonly kind: 'withdraw-pending' }
  /** The producer's process is gone. */
  | { readonly kind: 'writer-end' }

export type RegistrationEffect =
  | { readonly kind: 'register' }
  /** Ask the producer to write no more, or find proof that it is gone; `silence` follows where both fail. */
  | { readonly kind: 'withdraw' }
  /** The same again, after a while. */
  | { readonly kind: 'withdraw-later' }
  /** It was never asked, or took nothing on: tell it that it need not wait. */
  | { readonly kind: 'release' }

type Kind = RegistrationState['kind']

export const registrationTransitions: TransitionTable<Kind, RegistrationEvent['kind']> = {
  connecting: {
    'link-ready': ['registering'],
    'link-fail': ['failed'],
    withdraw: ['failed'],
  },
  registering: {
    accept: ['registered'],
    refuse: ['failed'],
    silence: ['withdrawing'],
    'write-end': ['written'],
    'producer-fail': ['failed'],
    withdraw: ['withdrawing'],
  },
  registered: {
    silence: ['withdrawing'],
    'write-end': ['written'],
    'producer-fail': ['failed'],
    withdraw: ['withdrawing'],
  },
  withdrawing: {
    'withdraw-pending': ['withdrawing'],
    // Answers to what was asked before: the withdrawal's own answer decides.
    accept: ['withdrawing'],
    refuse: ['failed'],
    withdraw: ['withdrawing'],
    silence: ['doubtful'],
    'write-end': ['written'],
    'producer-fail': ['failed'],
    'withdraw-end': ['failed'],
    'writer-end': ['failed'],
  },
  doubtful: {
    // It can be reached, and says itself that it writes: that is no quarantine.
    'withdraw-pending': ['withdrawing'],
    accept: ['doubtful'],
    refuse: ['failed'],
    withdraw: ['doubtful'],
    silence: ['doubtful'],
    'write-end': ['written'],
    'producer-fail': ['failed'],
    'withdraw-end': ['failed'],
    'writer-end': ['failed'],
  },
  // What comes late changes nothing: each event is said once, and it ended on another.
  written: ends('written'),
  failed: ends('failed'),
}

function ends(
  kind: 'written' | 'failed',
): Partial<Record<RegistrationEvent['kind'], readonly Kind[]>> {
  const same = [kind]
  return {
    'link-ready': same,
    'link-fail': same,
    accept: same,
    refuse: same,
    silence: same,
    'write-end': same,
    'producer-fail': same,
    withdraw: same,
    'withdraw-end': same,
    'withdraw-pending': same,
    'writer-end': same,
  }
}

type RegistrationStep = Step<RegistrationState, RegistrationEffect>

const machine = 'registration'
const stay = (state: RegistrationState): RegistrationStep => ({ state, effects: [] })
const fail = (error: AnyConnectorError): RegistrationStep => stay({ kind: 'failed', error })

function step(state: RegistrationState, event: RegistrationEvent): RegistrationStep {
  switch (state.kind) {
    case 'connecting':
      return stepConnecting(state, event)
    case 'registering':
    case 'registered':
      return stepOpen(state, event)
    case 'withdrawing':
    case 'doubtful':
      return stepWithdrawing(state, event)
    case 'written':
    case 'failed':
      return stay(state)
    default:
      return assertNever(state)
  }
}

function stepConnecting(
  state: Extract<RegistrationState, { kind: 'connecting' }>,
  event: RegistrationEvent,
): RegistrationStep {
  switch (event.kind) {
    case 'link-ready':
      return { state: { kind: 'registering' }, effects: [{ kind: 'register' }] }
    case 'link-fail':
      return fail(event.error)
    case 'withdraw':
      return { state: { kind: 'failed', error: event.reason }, effects: [{ kind: 'release' }] }
    case 'accept':
    case 'refuse':
    case 'silence':
    case 'write-end':
    case 'producer-fail':
    case 'withdraw-end':
    case 'withdraw-pending':
    case 'writer-end':
      return refuse(machine, state, event)
    default:
      return assertNever(event)
  }
}

function stepOpen(
  state: Extract<RegistrationState, { kind: 'registering' | 'registered' }>,
  event: RegistrationEvent,
): RegistrationStep {
  switch (event.kind) {
    case 'accept':
      return stay({ kind: 'registered' })
    case 'refuse':
      // Whoever keeps its KV for this load need not.
      return { ...fail(event.error), effects: [{ kind: 'release' }] }
    case 'producer-fail':
      return fail(event.error)
    case 'write-end':
      return stay({ kind: 'written' })
    case 'silence':
      return withdraw(event.error)
    case 'withdraw':
      return withdraw(event.reason)
    case 'link-ready':
    case 'link-fail':
    case 'withdraw-end':
    case 'withdraw-pending':
    case 'writer-end':
      return refuse(machine, state, event)
    default:
      return assertNever(event)
  }
}

const withdraw = (reason: AnyConnectorError): RegistrationStep => ({
  state: { kind: 'withdrawing', reason },
  effects: [{ kind: 'withdraw' }],
})

function stepWithdrawing(
  state: Extract<RegistrationState, { kind: 'withdrawing' | 'doubtful' }>,
  event: RegistrationEvent,
): RegistrationStep {
  const { reason } = state
  switch (event.kind) {
    case 'accept':
    case 'withdraw':
      return stay(state)
    case 'silence':
      return { state: { kind: 'doubtful', reason }, effects: [{ kind: 'withdraw-later' }] }
    case 'withdraw-pending':
      return { state: { kind: 'withdrawing', reason }, effects: [{ kind: 'withdraw-later' }] }
    case 'write-end':
      return stay({ kind: 'written' })
    case 'refuse':
    case 'producer-fail':
      return fail(event.error)
    case 'withdraw-end':
    case 'writer-end':
      return fail(reason)
    case 'link-ready':
    case 'link-fail':
      return refuse(machine, state, event)
    default:
      return assertNever(event)
  }
}

/** Pure. @throws InvariantError for an event that the state can't receive. */
export const stepRegistration = checked(machine, registrationTransitions, step)

export const isRegistrationOver = ({ kind }: RegistrationState): boolean =>
  kind === 'written' || kind === 'failed'
