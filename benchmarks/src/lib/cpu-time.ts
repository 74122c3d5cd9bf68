/**
 * CPU time of processes from /proc, for the share of the machine that the harness itself uses. Linux
 * only, like everything here.
 */
import { readFileSync } from 'node:fs'

/** USER_HZ: fixed at 100 in the kernel's interface on every architecture that Node runs on. */
const ticksPerSecond = 100

/**
 * User + system seconds of one process and its threads since it started; null once it is gone.
 * The command name (field 2) may hold spaces and parentheses, so fields are counted after the last ')'.
 */
export function processCpuSeconds(pid: number): number | null {
  let text: string
  try {
    text = readFileSync(`/proc/${pid}/stat`, 'utf8')
  } catch {
    return null
  }
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  const userTicks = Number(fields[11])
  const systemTicks = Number(fields[12])
  return (userTicks + systemTicks) / ticksPerSecond
}

/** CPU seconds of each process; a process that is gone counts 0. */
export function cpuSecondsByPid(pids: readonly number[]): ReadonlyMap<number, number> {
  return new Map(pids.map((pid) => [pid, processCpuSeconds(pid) ?? 0]))
}
