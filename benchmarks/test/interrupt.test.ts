/**
 * The built command as a process of its own, interrupted: its children end with it, its temporary
 * directories go, the exit code says which signal it was. Needs `dist` (as every test of a bin does).
 */
import { spawn, type ChildProcess } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { fakeProgramFlags, isAlive } from './fake-programs.ts'

const bin = fileURLToPath(new URL('../bin/kvferry-bench.mjs', import.meta.url))
const dist = fileURLToPath(new URL('../dist/cli.js', import.meta.url))

let directory = ''
let command: ChildProcess | null = null
/** Children that a test looked at. */
const seen: number[] = []

beforeEach(() => {
  if (!existsSync(dist)) throw new Error('benchmarks/dist is missing: build the workspace first')
  directory = mkdtempSync(join(tmpdir(), 'kvferry-bench-test-'))
})

afterEach(() => {
  // Only after a failed test is anything left; killed like this, the command can't end its children.
  const isRunning = command?.exitCode === null && command.signalCode === null
  const left = isRunning ? childrenOf(command?.pid as number) : []
  command?.kill('SIGKILL')
  for (const pid of [...left, ...seen].filter(isAlive)) process.kill(pid, 'SIGKILL')
  seen.length = 0
  rmSync(directory, { recursive: true, force: true })
})

/** A load that takes minutes: the signal comes in the middle of it. */
const longLoad = ['--requests', '100', '--qps', '1']
const shortLoad = ['--requests', '1', '--qps', '400']

/** Starts a comparison; resolves when `pattern` appears on its stderr. */
function startUntil(
  pattern: RegExp,
  load: readonly string[] = longLoad,
  env: Record<string, string> = {},
): Promise<ChildProcess> {
  const args = [...fakeProgramFlags, ...load, '--keep-logs', join(directory, 'logs')]
  const child = spawn(process.execPath, [bin, 'compare', ...args], {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: { ...process.env, TMPDIR: directory, ...env },
  })
  command = child
  let stderr = ''
  return new Promise((resolve, reject) => {
    child.stderr.on('data', (chunk: Buffer) => {
      stderr += chunk.toString()
      if (pattern.test(stderr)) resolve(child)
    })
    child.on('close', () => reject(new Error(`ended early:\n${stderr}`)))
  })
}

function exitOf(child: ChildProcess): Promise<number | null> {
  return new Promise((resolve) => child.on('close', resolve))
}

/** Direct children of a process, from the kernel. */
function childrenOf(pid: number): number[] {
  const text = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim()
  const children = text === '' ? [] : text.split(' ').map(Number)
  seen.push(...children)
  return children
}

const leftBehind = (): string[] => readdirSync(directory).filter((name) => name !== 'logs')

describe('an interrupted or broken comparison', () => {
  it.each([
    ['SIGINT', 130],
    ['SIGTERM', 143],
  ] as const)('%s: exit code %i, no child and no file left', async (signal, exitCode) => {
    const child = await startUntil(/oracle: warm-up/)
    const children = childrenOf(child.pid as number)
    expect(children.filter(isAlive)).toHaveLength(1)
    expect(leftBehind()).toHaveLength(1)
    const exited = exitOf(child)
    child.kill(signal)
    expect(await exited).toBe(exitCode)
    expect(children.filter(isAlive)).toEqual([])
    expect(leftBehind()).toEqual([])
  })

  it('ends at once while its engines are still starting', async () => {
    const child = await startUntil(/fake-1: starting/, shortLoad, { FAKE_FAULT: 'silent' })
    const exited = exitOf(child)
    child.kill('SIGINT')
    expect(await exited).toBe(130)
    expect(leftBehind()).toEqual([])
  })

  it('ends at once when a part of it dies, whatever the schedule still holds', async () => {
    // The schedule would go on for minutes, longer than this test may take.
    const load = ['--requests', '4000', '--qps', '20']
    const child = await startUntil(/oracle ended on its own/, load, { FAKE_ORACLE_FAULT: 'die' })
    expect(await exitOf(child)).toBe(1)
    expect(leftBehind()).toEqual([])
  })

  it('takes a signal that arrives twice at once as one', async () => {
    const child = await startUntil(/oracle: warm-up/)
    const exited = exitOf(child)
    child.kill('SIGINT')
    child.kill('SIGTERM')
    // Two threads of it may take one signal each: which of them comes first is not ours to say.
    expect([130, 143]).toContain(await exited)
    const log = readFileSync(join(directory, 'logs', 'oracle', 'oracle.log'), 'utf8')
    expect(log).toContain('fake ended in order')
  })

  it('kills the children when a later signal cuts the orderly end short', async () => {
    const child = await startUntil(/oracle: warm-up/)
    const children = childrenOf(child.pid as number)
    expect(children).toHaveLength(1)
    // A stopped child can't end by itself, so the orderly end would wait for its deadline.
    for (const pid of children) process.kill(pid, 'SIGSTOP')
    const exited = exitOf(child)
    child.kill('SIGINT')
    const impatience = setInterval(() => child.kill('SIGINT'), 100)
    const exitCode = await exited
    clearInterval(impatience)
    expect(exitCode).toBe(130)
    expect(children.filter(isAlive)).toEqual([])
    expect(leftBehind()).toEqual([])
  })
})
