/**
 * A whole deployment as real processes on ports of its own: prefill and decode engines (one of each, or as
 * many as a test wants), the router, and on demand the oracle. Tests may kill, stop and restart an engine; everything is ended by
 * `close`, by pid, whatever a test left behind.
 */
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { createServer } from 'node:net'
import { dirname, join } from 'node:path'
import { createChildGroup, type ChildGroup, type TrackedChild } from '@kvferry/benchmarks'
import { waitUntil } from './wait-until.ts'

/** The first of each role has no number, the next one is `prefill-2`. Also their engine ids. */
export type PairedName = 'prefill' | 'decode' | `prefill-${number}` | `decode-${number}`
export type EngineName = PairedName | 'oracle'

export interface DeploymentOptions {
  /** Flags of both engines and of the oracle. */
  readonly engineFlags?: readonly string[]
  /** Default 1. */
  readonly prefillCount?: number
  readonly decodeCount?: number
  /** Default `pull`. */
  readonly connector?: string
  readonly connectorOptions?: Readonly<Record<string, string | number | boolean>>
  readonly prefillFlags?: readonly string[]
  readonly decodeFlags?: readonly string[]
  readonly routerFlags?: readonly string[]
  readonly env?: Readonly<Record<string, string>>
}

export interface Deployment {
  readonly routerUrl: string
  /** Prefill engines, then decode engines. */
  readonly names: readonly PairedName[]
  child(name: EngineName | 'router'): TrackedChild
  /** Started when first asked for. */
  oracleUrl(): Promise<string>
  kill(name: EngineName, signal: NodeJS.Signals): void
  /** Same engine id, same HTTP port, new process. Resolves when the router has a pair to serve with again. */
  restart(name: PairedName): Promise<void>
  stats(name: EngineName): Promise<EngineStats>
  close(): Promise<void>
}

/** What these tests read of `GET /kvferry/v1/stats`. */
export interface EngineStats {
  /** Steps of the engine. */
  readonly steps: number
  /** What its steps took on the device that it stands for. */
  readonly modelledMs: number
  readonly blocks: {
    readonly total: number
    readonly free: number
    readonly owned: number
    readonly cached: number
    readonly leased: number
    readonly quarantined: number
  }
  readonly verification: {
    readonly blocksLoaded: number
    readonly blocksVerified: number
    readonly mismatchedBlocks: number
  }
  readonly agent: string
  readonly agentCounters: {
    readonly transfersOpen: number
    /** Of the open ones, those that are overdue. */
    readonly transfersDraining: number
    readonly transfersFailed: number
  }
  readonly connectorCounters: Readonly<Record<string, number>>
}

const require = createRequire(import.meta.url)

export function binOf(packageName: string, bin: string): string {
  const path = require.resolve(`${packageName}/package.json`)
  const manifest = JSON.parse(readFileSync(path, 'utf8')) as { bin: Record<string, string> }
  return join(dirname(path), manifest.bin[bin] as string)
}

/** For what must be named before it is there. Another process may take it meanwhile. */
export async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  await new Promise((resolve) => server.close(resolve))
  if (address === null || typeof address === 'string') throw new Error('no port')
  return address.port
}

/** `prefill`, `prefill-2`, … */
function namesOf(role: 'prefill' | 'decode', count = 1): PairedName[] {
  const nameOf = (index: number): PairedName => (index === 0 ? role : `${role}-${index + 1}`)
  return Array.from({ length: count }, (_, index) => nameOf(index))
}

type Role = 'prefill' | 'decode' | 'both'

export function roleOf(name: EngineName): Role {
  if (name === 'oracle') return 'both'
  return name.startsWith('prefill') ? 'prefill' : 'decode'
}

interface EngineStart {
  readonly group: ChildGroup
  readonly options: DeploymentOptions
  readonly name: EngineName
  readonly port: number
}

function startEngine({ group, options, name, port }: EngineStart): Promise<TrackedChild> {
  const { connector = 'pull', connectorOptions = {} } = options
  const given = Object.entries(connectorOptions).map(([key, value]) => `--option=${key}=${value}`)
  const role = roleOf(name)
  const own =
    role === 'both'
      ? []
      : [`--connector=${connector}`, `--engine-id=${name}`, '--debug-endpoints', ...given]
  return group.start({
    name,
    script: binOf('@kvferry/reference-engine', 'kvferry-engine'),
    args: [
      `--role=${role}`,
      `--port=${port}`,
      '--stop-on-stdin-end',
      ...own,
      ...(options.engineFlags ?? []),
      ...(role === 'prefill' ? (options.prefillFlags ?? []) : []),
      ...(role === 'decode' ? (options.decodeFlags ?? []) : []),
    ],
    env: options.env ?? {},
  })
}

async function routerIsReady(url: string): Promise<boolean> {
  const response = await fetch(`${url}/ready`)
  await response.arrayBuffer()
  return response.status === 200
}

export async function startDeployment(options: DeploymentOptions = {}): Promise<Deployment> {
  const group = createChildGroup()
  const children = new Map<EngineName | 'router', TrackedChild>()
  const prefills = namesOf('prefill', options.prefillCount)
  const decodes = namesOf('decode', options.decodeCount)
  const names = [...prefills, ...decodes]
  /** A restart needs its predecessor's port. */
  const ports = new Map<EngineName, number>()

  const child = (name: EngineName | 'router'): TrackedChild => {
    const found = children.get(name)
    if (!found) throw new Error(`${name} was not started`)
    return found
  }
  const start = async (name: EngineName): Promise<TrackedChild> => {
    const started = await startEngine({ group, options, name, port: ports.get(name) ?? 0 })
    ports.set(name, Number(new URL(started.ready.url).port))
    children.set(name, started)
    return started
  }
  const awaitReady = (url: string) => waitUntil('the router is ready', () => routerIsReady(url))

  try {
    await Promise.all(names.map(start))
    const urlsOf = (of: readonly PairedName[]) => of.map((name) => child(name).ready.url)
    const router = await group.start({
      name: 'router',
      script: binOf('@kvferry/router', 'kvferry-router'),
      args: [
        '--port=0',
        '--stop-on-stdin-end',
        ...['--prefill', ...urlsOf(prefills), '--decode', ...urlsOf(decodes)],
        ...(options.routerFlags ?? []),
      ],
    })
    children.set('router', router)
    await awaitReady(router.ready.url)
    return {
      routerUrl: router.ready.url,
      names,
      child,
      async oracleUrl() {
        return (children.get('oracle') ?? (await start('oracle'))).ready.url
      },
      kill: (name, signal) => void process.kill(child(name).pid, signal),
      async restart(name) {
        await start(name)
        await awaitReady(router.ready.url)
      },
      async stats(name) {
        return (await (
          await fetch(`${child(name).ready.url}/kvferry/v1/stats`)
        ).json()) as EngineStats
      },
      close: () => group.stop(),
    }
  } catch (error) {
    const tails = group.logTails()
    await group.stop()
    throw new Error(`deployment did not start\n${tails}`, { cause: error })
  }
}
