/**
 * The command `kvferry-engine` without the process around it: flags and file into options, one ready line
 * on stdout, the exit code. Called by cli.ts and by tests; holds no logic of the engine.
 */
import { Command, CommanderError, InvalidArgumentError, Option } from 'commander'
import { ConnectorError } from '@kvferry/connector-api'
import { describeUsage, logLevels, readConfigFile, type LogLevel } from '@kvferry/runtime'
import { modelNames } from './model-presets.ts'
import { startEngine, type EngineOptions, type RunningEngine } from './start-engine.ts'

interface Flags {
  role?: 'prefill' | 'decode' | 'both'
  connector?: string
  config?: string
  host: string
  port: number
  tp?: number
  kvLayout?: 'LBNHC' | 'LBHNC'
  prefixCaching?: 'on' | 'off'
  blockSize?: number
  numBlocks?: number
  blockOrder?: 'sequential' | 'scattered'
  maxNumSeqs?: number
  maxNumBatchedTokens?: number
  maxModelLen?: number
  maxOpenRequests?: number
  model?: string
  kvScale?: number
  timeScale?: number
  hooks?: 'additive' | 'after-launch'
  device?: string
  engineId?: string
  sideChannelPort?: number
  path?: 'auto' | 'descriptors' | 'slabs' | 'ipc'
  ipcCtas?: number
  option?: Record<string, unknown>
  agent: 'nixl' | 'memory'
  debugEndpoints: boolean
  shutdownDeadline?: number
  stopOnStdinEnd: boolean
  logLevel: LogLevel
}

const example = `
Examples:
  kvferry-engine --port 8000                                      one engine does all, no connector
  kvferry-engine --role prefill --connector pull --port 8001      prefill engine
  kvferry-engine --role decode --connector pull --port 8002       decode engine

Prints one JSON line when ready: {"event":"ready","url":…,"engineId":…,"pid":…}`

const integer = (text: string): number => {
  if (!/^\d+$/.test(text)) throw new InvalidArgumentError('write a whole number')
  return Number(text)
}

const port = (text: string): number => {
  const number = integer(text)
  if (number > 65_535) throw new InvalidArgumentError('write a port: 0 (any free one) to 65535')
  return number
}

const decimal = (text: string): number => {
  if (!/^\d+(\.\d+)?$/.test(text)) throw new InvalidArgumentError('write a number, for example 0.5')
  return Number(text)
}

/** Values are JSON where they can be (numbers, booleans), text otherwise. */
const optionPair = (text: string, before: Record<string, unknown> = {}) => {
  const [, key, value] = /^([A-Za-z][A-Za-z0-9_]*)=(.*)$/s.exec(text) ?? []
  if (key === undefined || value === undefined) {
    throw new InvalidArgumentError('write key=value, for example posting=inline')
  }
  return { ...before, [key]: parseValue(value) }
}

function parseValue(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

function parseFlags(argv: readonly string[], host: CliHost): Flags {
  const choice = (flag: string, description: string, choices: readonly string[]) =>
    new Option(flag, description).choices(choices)
  const program = new Command('kvferry-engine')
    .description('Reference engine: real KV bytes, modelled compute time, OpenAI completions API')
    .addOption(choice('--role <role>', 'what this engine does', ['prefill', 'decode', 'both']))
    .option(
      '--connector <name>',
      'pull, push, xavier, or a package that exports a ConnectorFactory',
    )
    .option('--config <file>', 'kvferry.yaml (or JSON); flags win over it')
    .option('--option <key=value>', 'option of the connector; repeatable', optionPair)
    .option('--engine-id <id>', 'name of this engine (default: random)')
    .option('--side-channel-port <port>', 'port for peers, 0 = any', port)
    .addOption(
      choice('--path <path>', 'how KV travels (auto)', ['auto', 'descriptors', 'slabs', 'ipc']),
    )
    .option('--ipc-ctas <n>', 'CTAs that path ipc takes of the GPU (one a multiprocessor)', integer)
    .option('--host <host>', 'HTTP address to listen on', '127.0.0.1')
    .option('--port <port>', 'HTTP port, 0 = any', port, 8_000)
    .addOption(choice('--model <preset>', 'KV layout and modelled times', modelNames))
    .option('--kv-scale <n>', 'divide the head size by this', integer)
    .option('--time-scale <x>', 'multiply every modelled time by this', decimal)
    .option('--block-size <tokens>', 'tokens per KV block', integer)
    .option('--num-blocks <n>', 'KV blocks', integer)
    .addOption(choice('--block-order <word>', 'of a new pool', ['sequential', 'scattered']))
    .option('--max-num-seqs <n>', 'sequences per step', integer)
    .option('--max-num-batched-tokens <n>', 'tokens per step', integer)
    .option('--max-model-len <tokens>', 'prompt and output together', integer)
    .option('--max-open-requests <n>', 'requests open at once; more get 429', integer)
    .addOption(choice('--prefix-caching <word>', 'reuse cached prefixes', ['on', 'off']))
    .addOption(choice('--hooks <place>', 'connector hooks in a step', ['additive', 'after-launch']))
    .option('--device <device>', 'where KV lies: cpu (default), or cuda:N')
    .option('--tp <n>', 'tensor-parallel size: ranks that share the heads', integer)
    .addOption(choice('--kv-layout <name>', 'tokens and heads in a block', ['LBNHC', 'LBHNC']))
    .addOption(choice('--agent <kind>', 'what moves KV', ['nixl', 'memory']).default('nixl'))
    .option('--debug-endpoints', 'serve /kvferry/v1/debug', false)
    .option('--shutdown-deadline <ms>', 'from the order to stop to the end (default 5000)', integer)
    .option('--stop-on-stdin-end', 'stop when standard input ends: a parent that is gone', false)
    .addOption(choice('--log-level <level>', 'lowest level written', logLevels).default('info'))
    .addHelpText('after', example)
    .exitOverride()
    // Its complaints are printed below, after the name of the program.
    .configureOutput({ writeOut: host.writeOut, outputError: () => {} })
  program.parse(argv, { from: 'user' })
  return program.opts<Flags>()
}

async function toOptions(flags: Flags): Promise<EngineOptions> {
  const { agent, config, option, ...rest } = flags
  if (agent === 'memory') {
    throw new ConnectorError(
      'ERR_KV_UNSUPPORTED',
      'the memory agent moves KV within one process only; leave --agent out, or use startEngine with core inline',
      { capability: 'agent memory' },
    )
  }
  const file = config === undefined ? undefined : await readConfigFile(config)
  if (file !== undefined && (typeof file !== 'object' || file === null || Array.isArray(file))) {
    const remedy = 'write an object with the keys of kvferry.yaml'
    const details = { field: 'config', value: config ?? '', remedy }
    throw new ConnectorError('ERR_KV_CONFIG', `${config}: ${remedy}`, details)
  }
  return {
    ...rest,
    ...(file === undefined ? {} : { config: file as Record<string, unknown> }),
    ...(option === undefined ? {} : { options: option }),
  }
}

/** What the command needs of its process. */
export interface CliHost {
  writeOut(text: string): void
  writeError(text: string): void
  /** Calls back when the process is asked to stop; with `stdinEnd`, also when standard input ends. */
  onStop(listener: () => void, options: { readonly stdinEnd: boolean }): void
}

/** Wrong usage, as opposed to a machine on which right usage fails. */
const usageCodes: readonly string[] = [
  'ERR_KV_CONFIG',
  'ERR_KV_UNSUPPORTED',
  'ERR_KV_CONNECTOR_NOT_INSTALLED',
]

/** Says why the engine doesn't run; the exit code. */
function refuse(error: unknown, host: CliHost): number {
  if (error instanceof CommanderError && error.exitCode === 0) return 0
  const isWrongUsage = error instanceof CommanderError
  const text = error instanceof Error ? error.message : String(error)
  host.writeError(`kvferry-engine: ${isWrongUsage ? describeUsage(error) : text}\n`)
  if (isWrongUsage) return 2
  return ConnectorError.isInstance(error) && usageCodes.includes(error.code) ? 2 : 1
}

/**
 * Runs until asked to stop. Resolves with the exit code: 0 after a clean end or `--help`, 2 for wrong
 * usage or configuration, 1 when the engine can't start here or broke down; one clear line on stderr.
 */
export async function runCli(argv: readonly string[], host: CliHost): Promise<number> {
  let onBroken: () => void = () => {}
  const broken = new Promise<'broken'>((resolve) => {
    onBroken = () => resolve('broken')
  })
  let engine: RunningEngine
  let flags: Flags
  try {
    flags = parseFlags(argv, host)
    engine = await startEngine({ ...(await toOptions(flags)), onFatal: () => onBroken() })
  } catch (error) {
    return refuse(error, host)
  }
  const stopped = new Promise<'stopped'>((resolve) => {
    host.onStop(() => resolve('stopped'), { stdinEnd: flags.stopOnStdinEnd })
  })
  const { engineId, url } = engine
  host.writeOut(`${JSON.stringify({ event: 'ready', url, engineId, pid: process.pid })}\n`)
  const reason = await Promise.race([stopped, broken])
  const { shutdownDeadline: deadlineMs } = flags
  await engine.close(deadlineMs === undefined ? {} : { deadlineMs })
  return reason === 'stopped' ? 0 : 1
}
