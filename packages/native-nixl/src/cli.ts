/**
 * The command `kvferry-nixl`: arguments in, exit code out (0 success, 1 failed check, 2 wrong usage).
 * Started by bin/kvferry-nixl.mjs. What a command does lives in its own module, loaded only then, so
 * that `install` works where the addon was not built.
 */
import { writeFile } from 'node:fs/promises'
import { ConnectorError } from '@kvferry/connector-api'
import { Command, CommanderError, Option } from 'commander'
import { cudaMajors, nixlVersion, type CudaMajor } from './install/wheels.ts'

const exitCodes = { success: 0, failed: 1, usage: 2, interrupted: 130 } as const

/** Thrown once a failed check was reported; nothing more needs to be said. */
const failedCheck = 'kvferry.failed-check'

interface JsonOption {
  readonly json?: string
}

const jsonOption = () =>
  new Option('--json <file>', 'write the machine-readable result ("-": standard output)')

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
    .addOption(jsonOption())
    .allowExcessArguments(false)
    .addHelpText('after', '\nExample:\n  kvferry-nixl doctor')
    .action(async (options: JsonOption) => {
      const { runDoctor } = await import('./doctor/doctor.ts')
      const { findingText, summaryText } = await import('./report-text.ts')
      const findings = await runDoctor({
        signal,
        onFinding: (finding) => say(findingText(finding)),
      })
      const isHealthy = findings.every(({ status }) => status !== 'failed')
      await report(
        { schema: 'kvferry.nixl-doctor/1', isHealthy, findings },
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
