import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { createProcessTable } from '../src/index.ts'

const startTimeOf = (pid: number): string => {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19]!
}

test('this process lives', () => {
  const table = createProcessTable()!
  expect(table.self.pid).toBe(process.pid)
  expect(table.hasEnded(table.self)).toBe(false)
})

test('a child has ended once it was killed and reaped, and not before', async () => {
  const table = createProcessTable()!
  const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { stdio: 'ignore' })
  await once(child, 'spawn')
  const pid = child.pid!
  const identity = { ...table.self, pid, startTime: startTimeOf(pid) }
  try {
    expect(table.hasEnded(identity)).toBe(false)
  } finally {
    child.kill('SIGKILL')
    await once(child, 'exit')
  }
  expect(table.hasEnded(identity)).toBe(true)
})

test('another process with the same pid is not the one that was meant', () => {
  const table = createProcessTable()!
  expect(table.hasEnded({ ...table.self, startTime: '1' })).toBe(true)
})

test('nothing can be told of a process on another machine', () => {
  const table = createProcessTable()!
  expect(table.hasEnded({ ...table.self, machineId: 'elsewhere' })).toBe(null)
})
