/**
 * The command `kvferry-nixl`: arguments in, exit code out (0 success, 1 failed check, 2 wrong usage).
 * Started by bin/kvferry-nixl.mjs. What a command does lives in its own module, loaded only then, so
 * that `install` works where the addon was not built.
 */
import { writeFile } from 'node:fs/promises'
import { ConnectorError } from '@kvferry/connector-api'
import { Command, CommanderError, InvalidArgumentError, Option } from 'commander'
import { cudaMajors, nixlVersion, type CudaMajor } from './install/wheels.ts'

const exitCodes = { success: 0, failed: 1, usage: 2, interrupted: 130 } as const

/** Thrown once a failed check was reported; nothing more needs to be said. */
const failedCheck = 'kvferry.failed-check'

interface JsonOption {
  readonly json?: string
}

const jsonOption = () =>
  new Option('--json <file>', 'write the machine-readable result ("-": standard output)')

/** As many blocks of 4 KiB as a transfer may have. */
const ratesMibMax = 256
const ratesMibMin = 4

function ratesMib(text: string): number {
  const mib = Number(text)
  if (Number.isInteger(mib) && mib % 2 === 0 && mib >= ratesMibMin && mib <= ratesMibMax) return mib
  const range = `an even number from ${ratesMibMin} to ${ratesMibMax}`
  throw new InvalidArgumentError(`MiB of one transfer must be ${range}, e.g. --rates 64.`)
}

function say(line: string): void {
  process.stderr.write(`${line}\n`)
}

/** Text for people goes to stdout, unless the JSON does: then nothing else may. */
async function report(value: object, text: string, options: JsonOption): Promise<void> {
  const json = `${JSON.stringify(value, null, 2)}\n`
  if (options.json === '-') process.stdout.write(json)
  else {
    if (options.json !== undefined) await writeFile(options.json, json)
    process.stdout.write(`${text}\n`)
  }
}

function createProgram(signal: AbortSignal): Command {
  const program = new Command('kvferry-nixl')
    .description(`Installs and checks NVIDIA NIXL ${nixlVersion} for KVFerry`)
    .exitOverride()
    // Its complaints are printed by exitCodeOf, with the command's name, on one line.
    .configureOutput({ outputError: () => {} })
    .addHelpText('after', '\nExample:\n  kvferry-nixl install && kvferry-nixl doctor')
    .allowExcessArguments()
    .action((_: unknown, { args }: Command) => {
      const found = args[0] === undefined ? 'no command' : `unknown command "${args[0]}"`
      const remedy = 'use install, doctor or info (kvferry-nixl --help)'
      throw new CommanderError(exitCodes.usage, 'kvferry.usage', `${found}: ${remedy}`)
    })

  program
    .command('install')
    .description('fetch the pinned NIXL through pip, check its hash, keep what UCX needs')
    .addOption(
      new Option('--cuda <major>', 'which of the wheels').choices(cudaMajors).default('12'),
    )
    .option('--dir <directory>', 'where to (default: KVFERRY_NIXL_DIR, else the user cache)')
    .option('--wheel <file>', 'use this wheel, fetched elsewhere, instead of downloading it')
    .addOption(jsonOption())
    .allowExcessArguments(false)
    .addHelpText('after', '\nExample:\n  kvferry-nixl install --cuda 12')
    .action(async (options: JsonOption & { cuda: CudaMajor; dir?: string; wheel?: string }) => {
      const { installNixl } = await import('./install/install.ts')
      const result = await installNixl({
        cuda: options.cuda,
        directory: options.dir,
        wheelPath: options.wheel,
        signal,
        onProgress: say,
      })
      const verb = result.status === 'installed' ? 'installed in' : 'is there already:'
      await report(
        { schema: 'kvferry.nixl-install/1', ...result },
        `NIXL ${result.nixlVersion} (CUDA ${result.cuda}) ${verb} ${result.directory}`,
        options,
      )
    })

  program
    .command('doctor')
    .description('move a block between two processes over each transport, and say what is wrong')
    .option(
      '--rates [MiB]',
      'measure each path between GPUs, or in host memory without one, for at most a minute; MiB of one transfer (default: 256)',
      ratesMib,
    )
    .addOption(jsonOption())
    .allowExcessArguments(false)
    .addHelpText('after', '\nExample:\n  kvferry-nixl doctor --rates')
    .action(async (options: JsonOption & { rates?: true | number }) => {
      const { runDoctor } = await import('./doctor/doctor.ts')
      const { findingText, summaryText } = await import('./report-text.ts')
      const { ratesText } = await import('./doctor/rates-text.ts')
      const mib = options.rates === true ? ratesMibMax : options.rates
      const ratesBytes = mib === undefined ? null : mib * 1_048_576
      const { findings, rates } = await runDoctor({
        ...{ signal, ratesBytes },
        onFinding: (finding) => say(findingText(finding)),
        onPair: (pair) => say(ratesText(pair, ratesBytes ?? 0)),
      })
      const isHealthy = findings.every(({ status }) => status !== 'failed')
      await report(
        { schema: 'kvferry.nixl-doctor/1', isHealthy, findings, rates },
        summaryText(findings),
        options,
      )
      if (!isHealthy) throw new CommanderError(exitCodes.failed, failedCheck, 'a check failed')
    })

  program
    .command('info')
    .description('versions, paths, layout, plugins and limits')
    .addOption(jsonOption())
    .allowExcessArguments(false)
    .addHelpText('after', '\nExample:\n  kvferry-nixl info --json -')
    .action(async (options: JsonOption) => {
      const { nixlInfo, probePlugins } = await import('./info.ts')
      const { infoText } = await import('./report-text.ts')
      const info = nixlInfo()
      const plugins = probePlugins()
      await report(
        { schema: 'kvferry.nixl-info/1', ...info, plugins },
        infoText(info, plugins),
        options,
      )
    })

  program
    .command('doctor-side <side>', { hidden: true })
    .action(async (side: 'initiator' | 'target') => {
      const { runSide } = await import('./doctor/side.ts')
      await runSide(side)
    })
  program
    .command('doctor-rates <side> <device> <bytes>', { hidden: true })
    .action(async (side: 'initiator' | 'target', device: string, bytes: string) => {
      const { runRateSide } = await import('./doctor/rates-side.ts')
      await runRateSide(side, {
        device: device === 'host' ? null : Number(device),
        totalBytes: Number(bytes),
      })
    })
  return program
}

/** Commander's message without its prefix and line breaks. */
const usageText = ({ message }: CommanderError): string =>
  message
    .replace(/^error: /, '')
    .replaceAll(/\s*\n\s*/g, ' ')
    .trim()

function exitCodeOf(error: unknown): number {
  if (error instanceof CommanderError) {
    if (error.code === failedCheck) return exitCodes.failed
    // `--help` comes as an exception with code 0.
    if (error.exitCode === 0) return exitCodes.success
    say(`kvferry-nixl: ${usageText(error)}`)
    return exitCodes.usage
  }
  if (ConnectorError.isInstance(error)) {
    say(`kvferry-nixl: ${error.message}`)
    return exitCodes.failed
  }
  throw error
}

async function main(): Promise<number> {
  const interrupt = new AbortController()
  for (const name of ['SIGINT', 'SIGTERM'] as const) {
    process.once(name, () => interrupt.abort(new Error(`stopped by ${name}`)))
  }
  try {
    await createProgram(interrupt.signal).parseAsync()
    return exitCodes.success
  } catch (error) {
    if (interrupt.signal.aborted) {
      say(`kvferry-nixl: ${(interrupt.signal.reason as Error).message}`)
      return exitCodes.interrupted
    }
    return exitCodeOf(error)
  }
}

process.exitCode = await main()
