/** Processes as the system's process table has them. */
import { readFileSync, readlinkSync } from 'node:fs'
import type { ProcessIdentity } from '@kvferry/connector-api'

export function identityOf(pid: number): ProcessIdentity {
  const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
  // Behind the name, which may hold anything.
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
    .replace(/^.*\) /s, '')
    .split(' ')
  const machineId = `${boot}/${readlinkSync('/proc/self/ns/pid')}`
  return { machineId, pid, startTime: fields[19]! }
}
