/**
 * A cluster of separate processes, the real thing: `kvferry-engine` twice and `kvferry-router`, or one
 * `kvferry-engine` as the oracle. Engine configurations are files in a temporary directory that lives as
 * long as the cluster.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { createChildGroup, type ChildGroup, type TrackedChild } from '../lib/child-group.ts'
import { getJson } from '../lib/http.ts'
import { createTemporaryDirectory } from '../lib/temporary-directory.ts'
import { limits } from '../limits.ts'
import type { Cluster, ClusterEngine, ClusterSpec, StartCluster } from './cluster.ts'
import type { Program } from './other-build.ts'

export interface ProcessClusterOptions {
  /** Scripts to run; null = the installed packages' bins. */
  readonly engineBin: string | null
  readonly routerBin: string | null
  /** Keeps the processes' logs and a `cluster.json` (who runs where) under this directory. */
  readonly logDirectory: string | null
  /** Passed on to the engines; only tests need it. */
  readonly debugEndpoints: boolean
  /** Where the engines' KV lies; null: host memory. */
  readonly devices?: Devices | null
}

/** Each as the engines' `--device` takes it. */
export interface Devices {
  /** Also of the engine that does all alone. */
  readonly prefill: string
  readonly decode: string
}

const require = createRequire(import.meta.url)

function installedBin(packageName: string, bin: string): string {
  const manifestPath = require.resolve(`${packageName}/package.json`)
  const manifest = JSON.parse(readFileSync(manifestPath, 'utf8')) as {
    bin: Record<string, string>
  }
  return join(dirname(manifestPath), manifest.bin[bin] as string)
}

function engineFlags(spec: ClusterSpec, options: ProcessClusterOptions): string[] {
  const { shape } = spec
  return [
    '--port=0',
    `--model=${shape.model}`,
    `--kv-scale=${shape.kvScale}`,
    `--block-size=${shape.blockTokens}`,
    `--num-blocks=${shape.blockCount}`,
    `--max-num-seqs=${shape.maxNumSeqs}`,
    `--max-num-batched-tokens=${shape.maxNumBatchedTokens}`,
    `--max-model-len=${shape.maxModelLen}`,
    `--time-scale=${shape.timeScale}`,
    `--hooks=${shape.hooks}`,
    ...(shape.blockOrder === undefined ? [] : [`--block-order=${shape.blockOrder}`]),
    `--prefix-caching=${spec.prefixCaching}`,
    ...(options.debugEndpoints ? ['--debug-endpoints'] : []),
  ]
}

/** `connector` and its options go through a file, the way an operator would configure them. */
function writeConfig(directory: string, spec: ClusterSpec, role: string, engineId: string): string {
  const path = join(directory, `${engineId}.json`)
  const { configuration } = spec
  const config = {
    connector: configuration?.connector,
    role,
    engineId,
    sideChannel: { host: '127.0.0.1', port: 0 },
    options: configuration?.options,
    path: configuration?.path,
  }
  writeFileSync(path, JSON.stringify(config))
  return path
}

async function waitUntilReady(url: string, signal: AbortSignal): Promise<void> {
  const deadline = performance.now() + limits.routerReadyTimeoutMs
  let last = 'no answer'
  while (performance.now() < deadline) {
    signal.throwIfAborted()
    try {
      const { status, body } = await getJson(`${url}/ready`)
      if (status === 200) return
      last = `HTTP ${status} ${JSON.stringify(body)}`
    } catch (error) {
      last = String(error)
    }
    await new Promise((resolve) => setTimeout(resolve, limits.pollIntervalMs))
  }
  throw new Error(`router at ${url} did not become ready: ${last}`)
}

interface Launch {
  readonly group: ChildGroup
  readonly spec: ClusterSpec
  readonly options: ProcessClusterOptions
  readonly configDirectory: string
  readonly logDirectory: string | null
}

const logFileOf = (launch: Launch, name: string): string | null =>
  launch.logDirectory ? join(launch.logDirectory, `${name}.log`) : null

/** Another build's where the configuration says so; `own`: what the user gave instead of the installed one. */
function programOf(
  { spec }: Launch,
  kind: 'engine' | 'router',
  own: string | null,
  installed: () => string,
): Program {
  return (
    spec.configuration?.build?.[kind] ?? { script: own ?? installed(), canStopOnStdinEnd: true }
  )
}

const stopFlag = ({ canStopOnStdinEnd }: Program): string[] =>
  canStopOnStdinEnd ? ['--stop-on-stdin-end'] : []

function startEngine(launch: Launch, name: string, role: string): Promise<TrackedChild> {
  const { spec, options, group } = launch
  const program = programOf(launch, 'engine', options.engineBin, () =>
    installedBin('@kvferry/reference-engine', 'kvferry-engine'),
  )
  const flags = [...engineFlags(spec, options), ...stopFlag(program)]
  const { devices = null } = options
  if (devices) flags.push(`--device=${role === 'consumer' ? devices.decode : devices.prefill}`)
  if (spec.configuration)
    flags.push('--config', writeConfig(launch.configDirectory, spec, role, name))
  else flags.push('--role=both')
  return group.start({
    name,
    script: program.script,
    args: flags,
    logFile: logFileOf(launch, name),
  })
}

function startRouter(launch: Launch, prefill: string, decode: string): Promise<TrackedChild> {
  const program = programOf(launch, 'router', launch.options.routerBin, () =>
    installedBin('@kvferry/router', 'kvferry-router'),
  )
  return launch.group.start({
    name: 'router',
    script: program.script,
    args: ['--port=0', ...stopFlag(program), '--prefill', prefill, '--decode', decode],
    logFile: logFileOf(launch, 'router'),
  })
}

const engineOf = (child: TrackedChild, role: ClusterEngine['role']): ClusterEngine => ({
  role,
  url: child.ready.url,
  pid: child.pid,
})

type Parts = Pick<Cluster, 'entryUrl' | 'hasRouter' | 'engines' | 'pids'>

async function launchParts(launch: Launch, signal: AbortSignal): Promise<Parts> {
  if (!launch.spec.configuration) {
    const child = await startEngine(launch, 'oracle', 'both')
    const engines = [engineOf(child, 'both')]
    return { entryUrl: child.ready.url, hasRouter: false, engines, pids: [child.pid] }
  }
  const started = await Promise.allSettled([
    startEngine(launch, 'prefill', 'producer'),
    startEngine(launch, 'decode', 'consumer'),
  ])
  const [prefill, decode] = started.map((outcome) => {
    if (outcome.status === 'rejected') throw outcome.reason
    return outcome.value
  }) as [TrackedChild, TrackedChild]
  const router = await startRouter(launch, prefill.ready.url, decode.ready.url)
  const giveUp = new AbortController()
  const ready = waitUntilReady(router.ready.url, AbortSignal.any([signal, giveUp.signal]))
  try {
    await Promise.race([ready, launch.group.failed])
  } finally {
    giveUp.abort()
    ready.catch(() => {})
  }
  return {
    entryUrl: router.ready.url,
    hasRouter: true,
    engines: [engineOf(prefill, 'producer'), engineOf(decode, 'consumer')],
    pids: [prefill.pid, decode.pid, router.pid],
  }
}

/** The maker of clusters that `compare` uses with `--agent nixl`. */
export function processClusters(options: ProcessClusterOptions): StartCluster {
  return async (spec, signal) => {
    const logDirectory = options.logDirectory ? join(options.logDirectory, spec.name) : null
    if (logDirectory) mkdirSync(logDirectory, { recursive: true })
    const configDirectory = createTemporaryDirectory()
    const group = createChildGroup()
    // A start in progress ends with its children, so an interrupt never waits for a ready line.
    const onAbort = (): void => void group.stop()
    signal.addEventListener('abort', onAbort, { once: true })
    const close = async (): Promise<void> => {
      signal.removeEventListener('abort', onAbort)
      await group.stop()
      configDirectory.remove()
    }
    try {
      signal.throwIfAborted()
      const launch = { group, spec, options, configDirectory: configDirectory.path, logDirectory }
      const parts = await launchParts(launch, signal)
      if (logDirectory) {
        writeFileSync(join(logDirectory, 'cluster.json'), `${JSON.stringify(parts, null, 2)}\n`)
      }
      const { failed } = group
      return { ...parts, tokens: 'bytes', failed, logTails: () => group.logTails(), close }
    } catch (error) {
      await close()
      throw error
    }
  }
}
