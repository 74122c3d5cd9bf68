/**
 * What a mutant is: a connector with one rule of the contract broken, from outside, and the clause of the
 * suite that must notice. Helpers to break it.
 */
import type { Clock } from '../../clock.ts'
import type { ConnectorFactory, WorkerOutput } from '../../connector.ts'
import type { AgentListener, TransferAgent } from '../../transfer-agent.ts'
import type { ConnectorClauseId } from '../connector-clauses.ts'

export interface WrongConnector {
  readonly name: string
  readonly clause: ConnectorClauseId
  readonly factory: ConnectorFactory
}

export const nothing: WorkerOutput = { sent: [], received: [], failed: [] }

/** Changes what the connector hears from its agent. */
export const withListener = (
  agent: TransferAgent,
  change: (listener: AgentListener) => Partial<AgentListener>,
): TransferAgent => ({
  ...agent,
  setListener(listener) {
    const heard: AgentListener = {
      onCompletions: (completions) => listener.onCompletions(completions),
      onNotifications: (notifications) => listener.onNotifications(notifications),
      onBroken: (error) => listener.onBroken(error),
    }
    agent.setListener({ ...heard, ...change(listener) })
  },
})

/** Timers of a second and more never ring. */
export const withoutLongTimers = (clock: Clock): Clock => ({
  now: () => clock.now(),
  after: (delayMs, callback) =>
    delayMs < 1_000 ? clock.after(delayMs, callback) : clock.after(1e12, callback),
})
