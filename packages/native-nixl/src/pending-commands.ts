/**
 * Commands on their way to the agent's thread and back, as promises. Bounded by the native half, which
 * refuses a command beyond its limit before it gets a ticket.
 */
import type { NativeCommandEnd, Ticket } from './binding.ts'
import { failureError, type FailureContext } from './nixl-error.ts'

interface Pending {
  readonly context: FailureContext
  resolve(end: NativeCommandEnd): void
  reject(error: Error): void
}

export class PendingCommands {
  readonly #byTicket = new Map<Ticket, Pending>()

  wait(ticket: Ticket, context: FailureContext): Promise<NativeCommandEnd> {
    return new Promise((resolve, reject) => {
      this.#byTicket.set(ticket, { context, resolve, reject })
    })
  }

  settle(ends: readonly NativeCommandEnd[]): void {
    for (const end of ends) {
      const pending = this.#byTicket.get(end.ticket)
      if (pending === undefined) continue
      this.#byTicket.delete(end.ticket)
      if (end.failure === null) pending.resolve(end)
      else pending.reject(failureError(end.failure, pending.context))
    }
  }
}
