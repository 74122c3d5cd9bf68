/**
 * The machine's process table as the contract's port: who this process is, and whether another has ended.
 * Reads `/proc`, whose files are small and never block.
 */
import { readFileSync, readlinkSync } from 'node:fs'
import type { ProcessIdentity, ProcessTable } from '@kvferry/connector-api'

/** Position of the start time among the fields after the program's name (proc(5): field 22). */
const startTimeField = 19

/**
 * The start time of a process in the kernel's ticks; null when there is none of that pid. One that has ended
 * and was not reaped is still there: its threads may be inside a system call.
 * @throws Error what `/proc` can't tell.
 */
function startTimeOf(pid: number): string | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    // The name is in parentheses, and may hold anything.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return fields[startTimeField] ?? null
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT' || code === 'ESRCH') return null
    throw error
  }
}

/** This start of this machine, as seen from this pid namespace: elsewhere a pid means another process. */
function readMachineId(): string {
  const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
  return `${boot}/${readlinkSync('/proc/self/ns/pid')}`
}

/** Null where there is no `/proc`: connectors then wait for a peer's own word. */
export function createProcessTable(): ProcessTable | null {
  const self = readSelf()
  if (self === null) return null
  return {
    self,
    hasEnded({ machineId, pid, startTime }) {
      if (machineId !== self.machineId) return null
      try {
        return startTimeOf(pid) !== startTime
      } catch {
        return null
      }
    },
  }
}

function readSelf(): ProcessIdentity | null {
  try {
    const { pid } = process
    const startTime = startTimeOf(pid)
    return startTime === null ? null : { machineId: readMachineId(), pid, startTime }
  } catch {
    return null
  }
}
