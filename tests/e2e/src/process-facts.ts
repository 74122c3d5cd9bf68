/** What the kernel says about a process: open files, listeners, memory. Linux only. */
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync, statSync } from 'node:fs'

export function openFileCount(pid: number): number {
  return readdirSync(`/proc/${pid}/fd`).length
}

/** Inodes of what living processes have mapped of shared memory. By name they'd be missed: a file may be renamed. */
function mappedInodes(): ReadonlySet<number> {
  const inodes = new Set<number>()
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    let maps = ''
    try {
      maps = readFileSync(`/proc/${pid}/maps`, 'utf8')
    } catch {
      // It has ended, or is not ours to look at.
    }
    // Address, access, offset, device, inode, path.
    for (const [, inode] of maps.matchAll(/^\S+ \S+ \S+ \S+ (\d+) +\/dev\/shm\//gm)) {
      inodes.add(Number(inode))
    }
  }
  return inodes
}

/** Files in shared memory that nobody who lives has mapped: what the dead left. Those of neighbours don't count. */
export function abandonedSharedMemory(): string[] {
  const inodes = mappedInodes()
  return readdirSync('/dev/shm').filter((name) => {
    const stats = statSync(`/dev/shm/${name}`, { throwIfNoEntry: false })
    return stats !== undefined && !inodes.has(stats.ino)
  })
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
