/**
 * Child processes of one run: started here, named, and ended here by their own handles on every way out
 * (normal end, error, signal, and, as the last resort, in the process's exit hook). A child that ends
 * before it is asked to makes `failed` reject with the last lines it wrote to stderr.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import { createWriteStream, type WriteStream } from 'node:fs'
import { createInterface } from 'node:readline'
import { limits } from '../limits.ts'
import { MachineError } from '../machine-error.ts'

export interface ReadyLine {
  readonly event: 'ready'
  readonly url: string
  readonly [field: string]: unknown
}

export interface ChildOptions {
  /** Shown in messages and log file names. */
  readonly name: string
  /** A script for this Node, with its arguments. */
  readonly script: string
  readonly args: readonly string[]
  readonly env?: Readonly<Record<string, string>>
  /** A command that replaces itself by the child, such as `ip netns exec NAME`. */
  readonly launcher?: readonly string[]
  readonly cwd?: string
  /** All of the child's stderr is also written there. */
  readonly logFile?: string | null
}

export interface TrackedChild {
  readonly name: string
  readonly pid: number
  readonly ready: ReadyLine
}

export interface ChildGroup {
  /** Resolves at the ready line. @throws Error when the child ends or stays silent until its deadline. */
  start(options: ChildOptions): Promise<TrackedChild>
  /** Rejects when a started child ends unasked. Never resolves. */
  readonly failed: Promise<never>
  /** The last stderr lines of every child, for a failure report. */
  logTails(): string
  /** SIGTERM, then SIGKILL after the stop deadline. Idempotent; resolves when all are reaped. */
  stop(): Promise<void>
}

interface Member {
  readonly name: string
  readonly process: ChildProcess
  readonly lines: string[]
  readonly ended: Promise<string>
  hasEnded: boolean
}

/** Every live child of every group, so that the exit hook can reach them. */
const living = new Set<ChildProcess>()
let hasExitHook = false

function killAllAtExit(): void {
  for (const child of living) child.kill('SIGKILL')
}

function isReadyLine(value: unknown): value is ReadyLine {
  const line = value as Partial<ReadyLine> | null
  return typeof line === 'object' && line?.event === 'ready' && typeof line.url === 'string'
}

function keepLog(member: Member, log: WriteStream | null): void {
  const stderr = member.process.stderr
  if (!stderr) return
  createInterface({ input: stderr }).on('line', (line) => {
    log?.write(`${line}\n`)
    member.lines.push(line.slice(0, limits.childLogLineCharactersMax))
    if (member.lines.length > limits.childLogLinesMax) member.lines.shift()
  })
}

function describeTail(member: Member): string {
  const lines = member.lines.map((line) => `  ${member.name}| ${line}`).join('\n')
  return `last lines of ${member.name} (pid ${member.process.pid ?? 'none'}):\n${lines || '  (none)'}`
}

function spawnMember(options: ChildOptions): Member {
  const [command = process.execPath, ...before] = options.launcher ?? []
  const own = options.launcher === undefined ? [] : [process.execPath]
  const child = spawn(command, [...before, ...own, options.script, ...options.args], {
    // Never written to: its end tells a child started with --stop-on-stdin-end that this process is gone,
    // also when it was killed and could end nobody.
    stdio: ['pipe', 'pipe', 'pipe'],
    env: { ...process.env, ...options.env },
    cwd: options.cwd,
  })
  child.stdin.on('error', () => {})
  living.add(child)
  if (!hasExitHook) {
    hasExitHook = true
    process.on('exit', killAllAtExit)
  }
  const log = options.logFile ? createWriteStream(options.logFile) : null
  const member: Member = {
    name: options.name,
    process: child,
    lines: [],
    hasEnded: false,
    ended: new Promise((resolve) => {
      // `error` without a pid is a failed spawn, after which `close` doesn't come.
      child.on('error', (error) => {
        if (child.pid === undefined) end(`could not start: ${error.message}`)
      })
      child.on('close', (code, signal) => end(signal ? `killed by ${signal}` : `exit code ${code}`))
      const end = (how: string): void => {
        living.delete(child)
        member.hasEnded = true
        log?.end()
        resolve(how)
      }
    }),
  }
  keepLog(member, log)
  return member
}

/** First JSON ready line on stdout; everything after it is read and dropped, so the pipe never fills. */
function readyLineOf(member: Member): Promise<ReadyLine> {
  return new Promise((resolve) => {
    const stdout = member.process.stdout
    if (!stdout) return
    createInterface({ input: stdout }).on('line', (line) => {
      try {
        const parsed: unknown = JSON.parse(line)
        if (isReadyLine(parsed)) resolve(parsed)
      } catch {
        member.lines.push(`(stdout) ${line.slice(0, limits.childLogLineCharactersMax)}`)
      }
    })
  })
}

async function withDeadline<T>(work: Promise<T>, deadlineMs: number, onLate: () => T): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<T>((resolve, reject) => {
    timer = setTimeout(() => {
      try {
        resolve(onLate())
      } catch (error) {
        reject(error as Error)
      }
    }, deadlineMs)
  })
  try {
    return await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
  }
}

export function createChildGroup(): ChildGroup {
  const members: Member[] = []
  let isStopping = false
  let reportFailure: (error: Error) => void = () => {}
  const failed = new Promise<never>((_, reject) => {
    reportFailure = reject
  })
  // Nobody may be racing against it yet; an early end is also thrown by `start`.
  failed.catch(() => {})

  const endedUnasked = (member: Member, how: string): Error =>
    new MachineError(`${member.name} ended on its own (${how})\n${describeTail(member)}`)

  async function start(options: ChildOptions): Promise<TrackedChild> {
    if (isStopping) throw new Error(`${options.name} not started: the group is stopping`)
    const member = spawnMember(options)
    members.push(member)
    const ended = member.ended.then((how) => {
      throw endedUnasked(member, how)
    })
    ended.catch((error: Error) => {
      if (!isStopping) reportFailure(error)
    })
    const ready = await withDeadline(
      Promise.race([readyLineOf(member), ended]),
      limits.childReadyTimeoutMs,
      () => {
        throw new Error(
          `${member.name} gave no ready line in ${limits.childReadyTimeoutMs} ms\n${describeTail(member)}`,
        )
      },
    )
    return { name: member.name, pid: member.process.pid as number, ready }
  }

  async function stopMember(member: Member): Promise<void> {
    if (member.hasEnded) return
    member.process.kill('SIGTERM')
    await withDeadline(member.ended, limits.childStopTimeoutMs, () => {
      member.process.kill('SIGKILL')
      return 'killed'
    })
    await member.ended
  }

  return {
    start,
    failed,
    logTails: () => members.map(describeTail).join('\n'),
    async stop() {
      isStopping = true
      await Promise.all(members.map(stopMember))
    },
  }
}
