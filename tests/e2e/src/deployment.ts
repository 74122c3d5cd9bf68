/**
 * A whole deployment as real processes on ports of its own: one prefill engine, one decode engine, the
 * router, and on demand the oracle. Tests may kill, stop and restart an engine; everything is ended by
 * `close`, by pid, whatever a test left behind.
 */
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { createServer } from 'node:net'
import { dirname, join } from 'node:path'
import { createChildGroup, type ChildGroup, type TrackedChild } from '@kvferry/benchmarks'
import { waitUntil } from './wait-until.ts'

export type EngineName = 'prefill' | 'decode' | 'oracle'

export interface DeploymentOptions {
  /** Flags of both engines and of the oracle. */
  readonly engineFlags?: readonly string[]
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
  child(name: EngineName | 'router'): TrackedChild
  /** Started when first asked for. */
  oracleUrl(): Promise<string>
  kill(name: EngineName, signal: NodeJS.Signals): void
  /** Same engine id, same HTTP port, new process. Resolves when the router is ready again. */
  restart(name: 'prefill' | 'decode'): Promise<void>
  stats(name: EngineName): Promise<EngineStats>
  close(): Promise<void>
}

/** What these tests read of `GET /kvferry/v1/stats`. */
export interface EngineStats {
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
  readonly agentCounters: { readonly transfersOpen: number; readonly transfersFailed: number }
  readonly connectorCounters: Readonly<Record<string, number>>
}

const require = createRequire(import.meta.url)

export function binOf(packageName: string, bin: string): string {
  const path = require.resolve(`${packageName}/package.json`)
  const manifest = JSON.parse(readFileSync(path, 'utf8')) as { bin: Record<string, string> }
  return join(dirname(path), manifest.bin[bin] as string)
}

/** A restart needs its predecessor's port, so the port is chosen before the first start. */
export async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  await new Promise((resolve) => server.close(resolve))
  if (address === null || typeof address === 'string') throw new Error('no port')
  return address.port
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
  const role = { prefill: 'prefill', decode: 'decode', oracle: 'both' }[name]
  const own =
    name === 'oracle'
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
      ...(name === 'prefill' ? (options.prefillFlags ?? []) : []),
      ...(name === 'decode' ? (options.decodeFlags ?? []) : []),
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
  const ports = { prefill: await freePort(), decode: await freePort() }

  const child = (name: EngineName | 'router'): TrackedChild => {
    const found = children.get(name)
    if (!found) throw new Error(`${name} was not started`)
    return found
  }
  const start = async (name: EngineName, port: number): Promise<TrackedChild> => {
    const started = await startEngine({ group, options, name, port })
    children.set(name, started)
    return started
  }
  const awaitReady = (url: string) => waitUntil('the router is ready', () => routerIsReady(url))

  try {
    const [prefill, decode] = await Promise.all([
      start('prefill', ports.prefill),
      start('decode', ports.decode),
    ])
    const router = await group.start({
      name: 'router',
      script: binOf('@kvferry/router', 'kvferry-router'),
      args: [
        '--port=0',
        '--stop-on-stdin-end',
        ...['--prefill', prefill.ready.url, '--decode', decode.ready.url],
        ...(options.routerFlags ?? []),
      ],
    })
    children.set('router', router)
    await awaitReady(router.ready.url)
    return {
      routerUrl: router.ready.url,
      child,
      async oracleUrl() {
        return (children.get('oracle') ?? (await start('oracle', 0))).ready.url
      },
      kill: (name, signal) => void process.kill(child(name).pid, signal),
      async restart(name) {
        await start(name, ports[name])
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
