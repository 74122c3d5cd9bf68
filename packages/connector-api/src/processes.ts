/**
 * Which process is meant, and whether it still lives. A transfer may write until its initiator's process is
 * gone (architecture, "When may a block be reused?"); on one machine that can be seen in the process table.
 */

/** One process, so that no later one with its pid is taken for it. */
export interface ProcessIdentity {
  /** The machine since its last start, and the pid namespace. */
  readonly machineId: string
  readonly pid: number
  /** As the process table shows it; opaque. */
  readonly startTime: string
}

export interface ProcessTable {
  /** The process that owns this rank's agent. */
  readonly self: ProcessIdentity
  /**
   * Whether that process has ended and was reaped, so that its last system call is over. Null: it runs
   * elsewhere, and nothing can be told from here.
   */
  hasEnded(process: ProcessIdentity): boolean | null
}
