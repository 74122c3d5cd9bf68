/** What the kernel says about a process: open files, listeners, memory. Linux only. */
import { execFileSync } from 'node:child_process'
import { readdirSync } from 'node:fs'

export function openFileCount(pid: number): number {
  return readdirSync(`/proc/${pid}/fd`).length
}

export function sharedMemoryNames(): string[] {
  return readdirSync('/dev/shm')
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
