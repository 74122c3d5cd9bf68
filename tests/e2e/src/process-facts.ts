/** What the kernel says about a process: open files, listeners, memory. Linux only. */
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs'

export function openFileCount(pid: number): number {
  return readdirSync(`/proc/${pid}/fd`).length
}

const sharedMemory = '/dev/shm/'

/** What it says of a process that has ended meanwhile, or is not ours to look at, is nothing. */
function ofProcess<T>(read: () => T[]): T[] {
  try {
    return read()
  } catch {
    return []
  }
}

function mappedInodes(pid: string): number[] {
  const maps = readFileSync(`/proc/${pid}/maps`, 'utf8')
  // Address, access, offset, device, inode, path.
  const lines = maps.matchAll(/^\S+ \S+ \S+ \S+ (\d+) +\/dev\/shm\//gm)
  return [...lines].map(([, inode]) => Number(inode))
}

/** Also of files that nobody has mapped: their maker is about to, or reads and writes them. */
function openInodes(pid: string): number[] {
  const folder = `/proc/${pid}/fd`
  return readdirSync(folder).flatMap((fd) =>
    ofProcess(() => {
      const path = `${folder}/${fd}`
      return readlinkSync(path).startsWith(sharedMemory) ? [statSync(path).ino] : []
    }),
  )
}

/** Of shared memory that somebody who lives has open or mapped. By name they'd be missed: a file may be renamed. */
function heldInodes(): ReadonlySet<number> {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name))
  const inodes = pids.flatMap((pid) => [
    ...ofProcess(() => mappedInodes(pid)),
    ...ofProcess(() => openInodes(pid)),
  ])
  return new Set(inodes)
}

const inodeOf = (name: string): number | undefined =>
  statSync(`${sharedMemory}${name}`, { throwIfNoEntry: false })?.ino

/**
 * Files in shared memory that nobody who lives holds: what the dead left. Those of neighbours don't count, so a
 * file is there before its holders are looked for, and after.
 */
export function abandonedSharedMemory(): string[] {
  const files = readdirSync(sharedMemory).map((name) => ({ name, inode: inodeOf(name) }))
  const held = heldInodes()
  return files
    .filter(({ name, inode }) => inode !== undefined && !held.has(inode) && inodeOf(name) === inode)
    .map(({ name }) => name)
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
