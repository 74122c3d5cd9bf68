/**
 * The listener of the agent under test: keeps everything it is told, in order, and wakes whoever waits
 * for something in it. One per agent, for all clauses; what earlier clauses left is cleared.
 */
import type { AnyConnectorError } from '../../errors.ts'
import type { AgentListener, AgentNotification, TransferAgent } from '../../transfer-agent.ts'
import type { TransferCompletion, TransferHandle } from '../../transfer-agent.ts'

export type FinalCompletion = Extract<TransferCompletion, { status: 'done' | 'failed' }>
export type OverdueCompletion = Extract<TransferCompletion, { status: 'overdue' }>

function append<T extends TransferCompletion>(map: Map<TransferHandle, T[]>, completion: T): void {
  const list = map.get(completion.transfer)
  if (list === undefined) map.set(completion.transfer, [completion])
  else list.push(completion)
}

export class Recorder implements AgentListener {
  completions: TransferCompletion[] = []
  notifications: AgentNotification[] = []
  broken: AnyConnectorError[] = []
  /** Called first at every completion; for clauses that look at memory at that very moment. */
  onCompletion: ((completion: TransferCompletion) => void) | null = null
  readonly #finals = new Map<TransferHandle, FinalCompletion[]>()
  readonly #overdues = new Map<TransferHandle, OverdueCompletion[]>()
  #waiters: { readonly isMet: () => boolean; readonly wake: () => void }[] = []

  onCompletions(completions: readonly TransferCompletion[]): void {
    for (const completion of completions) {
      this.onCompletion?.(completion)
      this.completions.push(completion)
      if (completion.status === 'overdue') append(this.#overdues, completion)
      else append(this.#finals, completion)
    }
    this.#wake()
  }

  onNotifications(notifications: readonly AgentNotification[]): void {
    for (const { from, message } of notifications) {
      this.notifications.push({ from, message: message.slice() })
    }
    this.#wake()
  }

  onBroken(error: AnyConnectorError): void {
    this.broken.push(error)
  }

  clear(): void {
    this.completions = []
    this.notifications = []
    this.broken = []
    this.#finals.clear()
    this.#overdues.clear()
    this.onCompletion = null
    this.#waiters = []
  }

  finals(transfer: TransferHandle): readonly FinalCompletion[] {
    return this.#finals.get(transfer) ?? []
  }

  overdues(transfer: TransferHandle): readonly OverdueCompletion[] {
    return this.#overdues.get(transfer) ?? []
  }

  /** Resolves once the condition holds, looked at after each event. */
  until(isMet: () => boolean): Promise<void> {
    if (isMet()) return Promise.resolve()
    return new Promise((wake) => this.#waiters.push({ isMet, wake }))
  }

  #wake(): void {
    const met = this.#waiters.filter(({ isMet }) => isMet())
    this.#waiters = this.#waiters.filter((waiter) => !met.includes(waiter))
    for (const { wake } of met) wake()
  }
}

const recorders = new WeakMap<TransferAgent, Recorder>()

/** The agent's recorder, empty; set as its listener the first time. */
export function recorderOf(agent: TransferAgent): Recorder {
  let recorder = recorders.get(agent)
  if (recorder === undefined) {
    recorder = new Recorder()
    recorders.set(agent, recorder)
    agent.setListener(recorder)
  }
  recorder.clear()
  return recorder
}
