/**
 * A state machine's transitions as data: for each state, the events it may receive and the states they
 * may lead to. Step functions are wrapped by `checked`, so that an event that a state can't legally
 * receive, or a state that an event can't lead to, is an InvariantError. An event that may arrive late
 * and is ignored is in the table too, leading to its own state: ignoring is a decision, not an accident.
 */
import { InvariantError, type Instant } from '../index.ts'

export type TransitionTable<S extends string, E extends string> = Readonly<
  Record<S, Readonly<Partial<Record<E, readonly S[]>>>>
>

/** What a step function returns; the shell performs the effects in order. */
export interface Step<State, Effect> {
  readonly state: State
  readonly effects: readonly Effect[]
}

interface Kind<K extends string> {
  readonly kind: K
}

type StepFunction<State, Event, Effect, Context> = (
  state: State,
  event: Event,
  now: Instant,
  context: Context,
) => Step<State, Effect>

/** Wraps `step` so that it obeys `table`. */
export function checked<State extends Kind<string>, Event extends Kind<string>, Effect, Context>(
  machine: string,
  table: TransitionTable<State['kind'], Event['kind']>,
  step: StepFunction<State, Event, Effect, Context>,
): StepFunction<State, Event, Effect, Context> {
  return (state, event, now, context) => {
    const targets = table[state.kind as State['kind']][event.kind as Event['kind']]
    if (targets === undefined) refuse(machine, state, event)
    const result = step(state, event, now, context)
    if (!targets.includes(result.state.kind)) {
      throw new InvariantError(
        `${machine}: ${event.kind} led from ${state.kind} to ${result.state.kind}`,
      )
    }
    return result
  }
}

/** The event is illegal in this state: a bug of ours or of the engine. @throws InvariantError, always. */
export function refuse(machine: string, state: Kind<string>, event: Kind<string>): never {
  throw new InvariantError(`${machine}: ${event.kind} in state ${state.kind}`)
}
