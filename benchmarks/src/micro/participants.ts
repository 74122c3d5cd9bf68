/**
 * The processes of one measurement: pairs of initiator and target, ours and the bare loop's, with the
 * same settings. Made by runMicroAgent, ended by it; knows the children's command lines, not their results.
 */
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { LineProcess } from './line-process.ts'
import { micro } from './settings.ts'

/** Set for every process alike, unless the user's environment says otherwise. */
export const sharedVariables: Readonly<Record<string, string>> = Object.fromEntries(
  Object.entries({
    UCX_DEBUG_SIGNO: '0',
    UCX_HANDLE_ERRORS: 'none',
    UCX_NET_DEVICES: 'lo',
    UCX_MEM_EVENTS: 'n',
    UCX_WARN_UNUSED_ENV_VARS: 'n',
    UCX_PROTO_INFO: 'y',
  }).map(([name, value]) => [name, process.env[name] ?? value]),
)

const packageRoot = dirname(
  createRequire(import.meta.url).resolve('@kvferry/benchmarks/package.json'),
)

/** @throws Error with the compiler's words, or with what to install. */
export async function buildBareLoop(): Promise<string> {
  const url = pathToFileURL(join(packageRoot, 'native', 'build.mjs')).href
  const { buildBareLoop: build } = (await import(url)) as { buildBareLoop: () => string }
  return build()
}

export interface Side {
  readonly initiator: LineProcess
  readonly target: LineProcess
}

export interface ParticipantsOptions {
  readonly libraryPath: string
  readonly bareLoop: string
  readonly signal: AbortSignal
}

export class Participants {
  readonly #options: ParticipantsOptions
  readonly #started: LineProcess[] = []

  constructor(options: ParticipantsOptions) {
    this.#options = options
  }

  /** A bare loop that has not said more than `ready METADATA ADDRESS`. */
  async bare(name: string) {
    const sizes = [micro.regionSizeBytes, micro.descriptorSizeBytes].map(String)
    return this.#start(name, this.#options.bareLoop, [this.#options.libraryPath, name, ...sizes], {
      // Its default is stdout, where the answers go.
      UCX_LOG_FILE: '/dev/null',
    })
  }

  /** A bare loop over memory of its own, of a GPU or (`place` null) of the host. */
  async bareOn(
    name: string,
    options: {
      readonly place: number | null
      readonly regionBytes: number
      readonly variables: Readonly<Record<string, string>>
    },
  ) {
    const { place, regionBytes, variables } = options
    const sizes = [regionBytes, micro.post.descriptorSizeBytes].map(String)
    const gpu = place === null ? [] : [String(place)]
    const args = [this.#options.libraryPath, name, ...sizes, ...gpu]
    return this.#start(name, this.#options.bareLoop, args, {
      ...variables,
      UCX_LOG_FILE: '/dev/null',
    })
  }

  /** A child of `gpus`. */
  async gpus(
    name: string,
    options: {
      readonly place: number | null
      readonly poolBytes: number
      readonly tables: readonly (number | string)[]
    },
  ) {
    const { place, poolBytes, tables } = options
    const script = join(packageRoot, 'dist', 'gpus-child.js')
    const args = [script, name, String(place ?? 'host'), String(poolBytes), JSON.stringify(tables)]
    return this.#start(name, process.execPath, args, {
      KVFERRY_NIXL_LIBRARY: this.#options.libraryPath,
    })
  }

  /** A child with our agent. */
  async ours(name: string) {
    const script = join(packageRoot, 'dist', 'micro-child.js')
    return this.#start(name, process.execPath, [script, name], {
      KVFERRY_NIXL_LIBRARY: this.#options.libraryPath,
    })
  }

  /** A child with our agent and blocks of many sizes. */
  async paths(name: string) {
    const script = join(packageRoot, 'dist', 'micro-paths-child.js')
    return this.#start(name, process.execPath, [script, name], {
      KVFERRY_NIXL_LIBRARY: this.#options.libraryPath,
    })
  }

  /** NIXL's own bindings in `interpreter`. @throws Error with what it lacks. */
  async python(interpreter: string, flags: readonly string[] = []) {
    const script = join(packageRoot, 'python', 'prepped_post.py')
    const { descriptorCount, descriptorSizeBytes } = micro.post
    const sizes = [descriptorCount, descriptorSizeBytes].map(String)
    return this.#start('python', interpreter, [...flags, script, 'python', ...sizes], {
      UCX_LOG_FILE: '/dev/null',
    })
  }

  /** Initiator and target of one kind, connected and wired up. */
  async side(kind: 'bare' | 'ours' | 'paths', name: string): Promise<Side> {
    const start = (role: string) => this[kind](`${name}-${role}`)
    const target = await start('target')
    const initiator = await start('initiator')
    await target.process.request('serve')
    const peer = kind === 'bare' ? target.words : [target.process.name, ...target.words]
    await initiator.process.request(['connect', ...peer].join(' '))
    return { initiator: initiator.process, target: target.process }
  }

  /** Ends all that were started; resolves when they are reaped. */
  async stop(): Promise<void> {
    await Promise.all(this.#started.splice(0).map((child) => child.stop()))
  }

  async #start(
    name: string,
    command: string,
    args: readonly string[],
    env: Readonly<Record<string, string>>,
  ) {
    const { signal } = this.#options
    const options = { name, command, args, env: { ...sharedVariables, ...env }, signal }
    const started = await LineProcess.start(options)
    this.#started.push(started.process)
    return started
  }
}
