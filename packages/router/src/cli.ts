/**
 * `kvferry-router`: flags and file into one configuration, one ready line on stdout, a drained end on
 * SIGTERM and SIGINT. Run through bin/kvferry-router.mjs; holds no logic of the router.
 */
import { Command, CommanderError, InvalidArgumentError } from 'commander'
import { ConnectorError } from '@kvferry/connector-api'
import { createLogger, logLevels, readConfigFile, type LogLevel } from '@kvferry/runtime'
import type { RouterConfig } from './options.ts'
import { startRouter } from './start-router.ts'

interface Flags {
  config?: string
  prefill?: string[]
  decode?: string[]
  host?: string
  port?: number
  connector?: string
  prefillEngineId?: string[]
  prefillSideChannel?: string[]
  prefillTp?: number[]
  logLevel: LogLevel
}

const example = `
Example:
  kvferry-router --prefill http://127.0.0.1:8001 --decode http://127.0.0.1:8002 --port 8000

Engines that publish /kvferry/v1/peer need no more. For engines without it (plain vLLM servers) say
--connector pull; the --prefill-… flags then belong to the --prefill URLs in the same order.`

const integer = (text: string): number => {
  if (!/^\d+$/.test(text)) throw new InvalidArgumentError('write a whole number')
  return Number(text)
}
const integers = (text: string, before: number[] = []) => [...before, integer(text)]

function parseFlags(argv: readonly string[]): Flags {
  const program = new Command('kvferry-router')
    .description('OpenAI-compatible router for disaggregated prefill and decode engines')
    .option('--config <file>', 'YAML or JSON file; flags win over it')
    .option('--prefill <url...>', 'prefill engines')
    .option('--decode <url...>', 'decode engines')
    .option('--host <host>', 'address to listen on (default 127.0.0.1)')
    .option('--port <port>', 'port to listen on, 0 = any (default 8000)', integer)
    .option('--connector <name>', 'what engines without /kvferry/v1/peer run: pull')
    .option('--prefill-engine-id <id...>', 'engine id that each prefill engine must report')
    .option('--prefill-side-channel <host:port...>', 'where decode reaches each prefill engine')
    .option('--prefill-tp <n...>', 'tensor-parallel size of each prefill engine', integers)
    .option('--log-level <level>', logLevels.join(' | '), 'info')
    .addHelpText('after', example)
    .exitOverride()
    .configureOutput({ outputError: (text, write) => write(text.trim() + '\n') })
  program.parse(argv, { from: 'user' })
  return program.opts<Flags>()
}

/** Flags win over the file, key by key. */
async function readConfig(flags: Flags): Promise<RouterConfig> {
  const file = flags.config === undefined ? {} : await readConfigFile(flags.config)
  const isObject = typeof file === 'object' && file !== null && !Array.isArray(file)
  const fromFile = (isObject ? file : {}) as Partial<RouterConfig>
  const { decode, host, port, connector } = flags
  const fromFlags = {
    prefill: flags.prefill?.map((url, index) => declarePrefill(url, index, flags)),
    decode,
    host,
    port,
    connector,
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

async function main(argv: readonly string[]): Promise<void> {
  const flags = parseFlags(argv)
  const logger = createLogger({ name: 'kvferry-router', level: flags.logLevel })
  const router = await startRouter(await readConfig(flags), { logger })
  let isStopping = false
  const stop = (signal: string) => {
    if (isStopping) return
    isStopping = true
    logger.info('stopping', { signal })
    router.close().then(
      () => process.exit(0),
      (error: unknown) => {
        logger.error('shutdown failed', { reason: String(error) })
        process.exit(1)
      },
    )
  }
  process.on('SIGTERM', () => stop('SIGTERM'))
  process.on('SIGINT', () => stop('SIGINT'))
  const ready = { event: 'ready', url: router.url, engineId: null, pid: process.pid }
  process.stdout.write(`${JSON.stringify(ready)}\n`)
}

main(process.argv.slice(2)).catch((error: unknown) => {
  if (error instanceof CommanderError) {
    process.exitCode = error.exitCode === 0 ? 0 : 2
    return
  }
  if (!ConnectorError.isInstance(error)) throw error
  process.stderr.write(`kvferry-router: ${error.message}\n`)
  process.exitCode = 2
})
