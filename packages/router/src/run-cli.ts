/**
 * The command `kvferry-router` without the process around it: flags and file into one configuration, one
 * ready line on stdout, the exit code. Called by cli.ts and by tests; holds no logic of the router.
 */
import { Command, CommanderError, InvalidArgumentError, Option } from 'commander'
import { ConnectorError, type Logger } from '@kvferry/connector-api'
import { describeUsage, logLevels, readConfigFile, type LogLevel } from '@kvferry/runtime'
import type { RouterConfig } from './options.ts'
import { policyNames } from './policy.ts'
import { startRouter, type RunningRouter } from './start-router.ts'

interface Flags {
  config?: string
  prefill?: string[]
  decode?: string[]
  host?: string
  port?: number
  connector?: string
  policy?: string
  prefillEngineId?: string[]
  prefillSideChannel?: string[]
  prefillTp?: number[]
  stopOnStdinEnd: boolean
  logLevel: LogLevel
}

const example = `
Example:
  kvferry-router --prefill http://127.0.0.1:8001 --decode http://127.0.0.1:8002 --port 8000

Engines that publish /kvferry/v1/peer need no more. For engines without it (plain vLLM servers) say
--connector pull, push or xavier; the --prefill-… flags then belong to the --prefill URLs in the same order, and
push needs all three.`

const integer = (text: string): number => {
  if (!/^\d+$/.test(text)) throw new InvalidArgumentError('write a whole number')
  return Number(text)
}
const integers = (text: string, before: number[] = []) => [...before, integer(text)]

function parseFlags(argv: readonly string[], host: CliHost): Flags {
  const program = new Command('kvferry-router')
    .description('OpenAI-compatible router for disaggregated prefill and decode engines')
    .option('--config <file>', 'YAML or JSON file; flags win over it')
    .option('--prefill <url...>', 'prefill engines')
    .option('--decode <url...>', 'decode engines')
    .option('--host <host>', 'address to listen on (default 127.0.0.1)')
    .option('--port <port>', 'port to listen on, 0 = any (default 8000)', integer)
    .option('--connector <name>', 'what engines without /kvferry/v1/peer run: pull, push or xavier')
    .option('--policy <name>', `who is next: ${policyNames.join(' or ')} (default round-robin)`)
    .option('--prefill-engine-id <id...>', 'engine id that each prefill engine must report')
    .option('--prefill-side-channel <host:port...>', 'where decode reaches each prefill engine')
    .option('--prefill-tp <n...>', 'tensor-parallel size of each prefill engine', integers)
    .option('--stop-on-stdin-end', 'stop when standard input ends: a parent that is gone', false)
    .addOption(new Option('--log-level <level>').choices(logLevels).default('info'))
    .addHelpText('after', example)
    .exitOverride()
    // Its complaints are printed below, after the name of the program.
    .configureOutput({ writeOut: host.writeOut, outputError: () => {} })
  program.parse(argv, { from: 'user' })
  return program.opts<Flags>()
}

/** Flags win over the file, key by key. */
async function readConfig(flags: Flags): Promise<RouterConfig> {
  const file = flags.config === undefined ? {} : await readConfigFile(flags.config)
  const isObject = typeof file === 'object' && file !== null && !Array.isArray(file)
  const fromFile = (isObject ? file : {}) as Partial<RouterConfig>
  const { decode, host, port, connector, policy } = flags
  const fromFlags = {
    prefill: flags.prefill?.map((url, index) => declarePrefill(url, index, flags)),
    decode,
    host,
    port,
    connector,
    policy,
  }
  const given = Object.entries(fromFlags).filter(([, value]) => value !== undefined)
  // Checked by startRouter, like any other input.
  return { ...fromFile, ...Object.fromEntries(given) } as RouterConfig
}

function declarePrefill(url: string, index: number, flags: Flags) {
  const engineId = flags.prefillEngineId?.[index]
  const sideChannel = flags.prefillSideChannel?.[index]
  const tp = flags.prefillTp?.[index]
  return {
    url,
    ...(engineId === undefined ? {} : { engineId }),
    ...(sideChannel === undefined ? {} : { sideChannel }),
    ...(tp === undefined ? {} : { tp }),
  }
}

/** What the command needs of its process. */
export interface CliHost {
  writeOut(text: string): void
  writeError(text: string): void
  createLogger(level: LogLevel): Logger
  /** Calls back when the process is asked to stop; with `stdinEnd`, also when standard input ends. */
  onStop(listener: () => void, options: { readonly stdinEnd: boolean }): void
}

/**
 * Runs until asked to stop. Resolves with the exit code: 0 after a clean end or `--help`, 2 for wrong
 * usage or configuration, with one clear message on stderr.
 */
export async function runCli(argv: readonly string[], host: CliHost): Promise<number> {
  let router: RunningRouter
  let flags: Flags
  try {
    flags = parseFlags(argv, host)
    const logger = host.createLogger(flags.logLevel)
    router = await startRouter(await readConfig(flags), { logger })
  } catch (error) {
    if (error instanceof CommanderError && error.exitCode === 0) return 0
    if (!(error instanceof CommanderError) && !ConnectorError.isInstance(error)) throw error
    const text = error instanceof CommanderError ? describeUsage(error) : error.message
    host.writeError(`kvferry-router: ${text}\n`)
    return 2
  }
  const stopped = new Promise<void>((resolve) => {
    host.onStop(() => resolve(), { stdinEnd: flags.stopOnStdinEnd })
  })
  const ready = { event: 'ready', url: router.url, engineId: null, pid: process.pid }
  host.writeOut(`${JSON.stringify(ready)}\n`)
  await stopped
  await router.close()
  return 0
}
