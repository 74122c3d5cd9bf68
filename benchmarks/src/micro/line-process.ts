/**
 * A child process that answers one line per line: the bare loop and the agent's child speak the same way.
 * Started, named and ended here by its own handle on every way out. Every wait has a deadline.
 */
import { spawn, type ChildProcessByStdio } from 'node:child_process'
import { createInterface } from 'node:readline'
import type { Readable, Writable } from 'node:stream'
import { limits } from '../limits.ts'
import { microDeadlines } from './settings.ts'

export interface LineProcessOptions {
  readonly name: string
  readonly command: string
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
  /** Kills the child. */
  readonly signal: AbortSignal
}

const living = new Set<ChildProcessByStdio<Writable, Readable, Readable>>()
let hasExitHook = false

function killAllAtExit(): void {
  for (const child of living) child.kill('SIGKILL')
}

export class LineProcess {
  readonly name: string
  readonly #child: ChildProcessByStdio<Writable, Readable, Readable>
  readonly #ended: Promise<string>
  readonly #signal: AbortSignal
  readonly #errorLines: string[] = []
  #waiting: { resolve(line: string): void; reject(error: Error): void } | null = null
  #unread: string[] = []
  #end: string | null = null

  private constructor(options: LineProcessOptions) {
    this.name = options.name
    this.#signal = options.signal
    this.#child = spawn(options.command, options.args, {
      stdio: ['pipe', 'pipe', 'pipe'],
      env: { ...process.env, ...options.env },
    })
    living.add(this.#child)
    if (!hasExitHook) {
      hasExitHook = true
      process.on('exit', killAllAtExit)
    }
    // A child that is gone is reported by its end, not by the pipe that breaks.
    this.#child.stdin.on('error', () => {})
    createInterface({ input: this.#child.stdout }).on('line', (line) => this.#onLine(line))
    createInterface({ input: this.#child.stderr }).on('line', (line) => {
      this.#errorLines.push(line.slice(0, limits.childLogLineCharactersMax))
      if (this.#errorLines.length > limits.childLogLinesMax) this.#errorLines.shift()
    })
    this.#ended = new Promise((resolve) => {
      this.#child.once('error', (error) => resolve(`could not start: ${error.message}`))
      this.#child.once('close', (code, signal) => resolve(signal ?? `exit code ${code}`))
    })
    void this.#ended.then((how) => {
      living.delete(this.#child)
      this.#end = how
      this.#waiting?.reject(this.#failure(`ended (${how})`))
    })
  }

  /** Resolves with the words after `ready`. @throws Error when it ends, refuses or stays silent. */
  static async start(
    options: LineProcessOptions,
  ): Promise<{ readonly process: LineProcess; readonly words: readonly string[] }> {
    const process = new LineProcess(options)
    try {
      return { process, words: await process.#next('ready', microDeadlines.readyMs) }
    } catch (error) {
      await process.stop()
      throw error
    }
  }

  /** Sends one line; resolves with the words after `ok`. One at a time. */
  request(line: string): Promise<readonly string[]> {
    if (this.#end !== null) throw this.#failure(`ended (${this.#end})`)
    const answer = this.#next('ok', microDeadlines.commandMs)
    this.#child.stdin.write(`${line}\n`)
    return answer
  }

  /** Closes its input, then kills it. Idempotent; resolves when it is reaped. */
  async stop(): Promise<void> {
    this.#child.stdin.end()
    const timer = setTimeout(() => this.#child.kill('SIGKILL'), microDeadlines.stopMs)
    if (this.#signal.aborted) this.#child.kill('SIGKILL')
    await this.#ended
    clearTimeout(timer)
  }

  #onLine(line: string): void {
    if (this.#waiting === null) this.#unread.push(line)
    else this.#waiting.resolve(line)
  }

  async #next(expected: string, deadlineMs: number): Promise<readonly string[]> {
    const line = this.#unread.shift() ?? (await this.#line(deadlineMs))
    const [first, ...words] = line.split(' ')
    if (first !== expected) throw this.#failure(line)
    return words
  }

  async #line(deadlineMs: number): Promise<string> {
    let stop = () => {}
    try {
      return await new Promise<string>((resolve, reject) => {
        this.#waiting = { resolve, reject }
        const late = () => reject(this.#failure(`said nothing for ${deadlineMs} ms`))
        const timer = setTimeout(late, deadlineMs)
        const aborted = () => reject(this.#signal.reason as Error)
        this.#signal.addEventListener('abort', aborted, { once: true })
        if (this.#signal.aborted) aborted()
        stop = () => {
          clearTimeout(timer)
          this.#signal.removeEventListener('abort', aborted)
        }
      })
    } finally {
      stop()
      this.#waiting = null
    }
  }

  #failure(what: string): Error {
    const tail = this.#errorLines.map((line) => `\n  ${this.name}| ${line}`).join('')
    return new Error(`${this.name}: ${what}${tail}`)
  }
}
