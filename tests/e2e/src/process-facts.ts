/** What the kernel says about a process: open files, listeners, memory. Linux only. */
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'

export function openFileCount(pid: number): number {
  return readdirSync(`/proc/${pid}/fd`).length
}

/** Of every process that may be looked at; one that ends meanwhile has none. */
function mappedFiles(): string {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map((pid) => {
      try {
        return readFileSync(`/proc/${pid}/maps`, 'utf8')
      } catch {
        return ''
      }
    })
    .join('\n')
}

/** Files in shared memory that nobody who lives has mapped: what the dead left. Those of neighbours don't count. */
export function abandonedSharedMemory(): string[] {
  const names = readdirSync('/dev/shm')
  if (names.length === 0) return []
  const mapped = mappedFiles()
  return names.filter((name) => !mapped.includes(`/dev/shm/${name}`))
}

/** Local addresses of listening TCP and bound UDP sockets of these processes, as `ss` prints them. */
export function listeningAddresses(pids: readonly number[]): string[] {
  const output = execFileSync('ss', ['-H', '-l', '-n', '-p', '-t', '-u'], { encoding: 'utf8' })
  return output
    .split('\n')
    .filter((line) => pids.some((pid) => line.includes(`pid=${pid},`)))
    .map((line) => line.trim().split(/\s+/)[4] as string)
}

export function isLoopback(address: string): boolean {
  return /^(127\.\d+\.\d+\.\d+|\[::1\]|\[::ffff:127\.\d+\.\d+\.\d+\])(%\w+)?:\d+$/.test(address)
}
