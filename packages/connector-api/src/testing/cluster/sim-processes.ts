/** The process table of a simulated machine: who lives, and who was killed and reaped. */
import type { ProcessIdentity, ProcessTable } from '../../processes.ts'

export class SimProcesses {
  readonly #living = new Set<number>()
  #nextPid = 100

  /** A process of its own, with its view of the table. */
  start(): ProcessTable {
    const pid = this.#nextPid++
    this.#living.add(pid)
    const self: ProcessIdentity = { machineId: 'sim', pid, startTime: String(pid) }
    return {
      self,
      hasEnded: ({ machineId, pid: other }) =>
        machineId === 'sim' ? !this.#living.has(other) : null,
    }
  }

  /** SIGKILL, and reaped. */
  end({ pid }: ProcessIdentity): void {
    this.#living.delete(pid)
  }
}
