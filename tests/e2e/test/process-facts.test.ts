/** What the tests of dead engines rely on: which files in shared memory count as left behind. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync, rmSync, writeFileSync } from 'node:fs'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { abandonedSharedMemory } from '../src/process-facts.ts'

const name = `kvferry-facts-${process.pid}`
const path = `/dev/shm/${name}`
beforeEach(() => writeFileSync(path, Buffer.alloc(4_096)))
afterEach(() => rmSync(path, { force: true }))

const isAbandoned = (): boolean => abandonedSharedMemory().includes(name)

test('a file that nobody has open or mapped is abandoned, until it is gone', () => {
  expect(isAbandoned()).toBe(true)
  rmSync(path)
  expect(isAbandoned()).toBe(false)
})

test('a file that a living process has open, though nobody has mapped it, is not', () => {
  const descriptor = openSync(path, 'r')
  try {
    expect(isAbandoned()).toBe(false)
  } finally {
    closeSync(descriptor)
  }
  expect(isAbandoned()).toBe(true)
})

/** Maps the file, closes it, says so, and lives until its input ends. Python's own mmap would keep it open. */
const mapAndClose = `
import ctypes, os, sys
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
fd = os.open(sys.argv[1], os.O_RDONLY)
assert libc.mmap(None, ctypes.c_size_t(4096), 1, 1, fd, ctypes.c_long(0)) not in (None, ctypes.c_void_p(-1).value)
os.close(fd)
print("mapped", flush=True)
sys.stdin.read()
`

test('a file that another process has mapped, though nobody has it open, is not while that process lives', async () => {
  const holder = spawn('python3', ['-c', mapAndClose, path], { stdio: ['pipe', 'pipe', 'inherit'] })
  const ended = once(holder, 'close')
  try {
    const [said] = (await Promise.race([once(holder.stdout, 'data'), ended])) as [unknown]
    expect(String(said).trim()).toBe('mapped')
    expect(isAbandoned()).toBe(false)
  } finally {
    holder.stdin.end()
    await ended
  }
  expect(isAbandoned()).toBe(true)
})
