/**
 * The commands of `kvferry`: arguments in, exit code out (0 success, 1 a failed check, 2 wrong usage with
 * one line on stderr). Touches the process nowhere; cli.ts connects it.
 */
import { Command, CommanderError, InvalidArgumentError, Option } from 'commander'
import { limits } from '@kvferry/connector-api'
import { certs, type CertsOptions } from './certs.ts'
import { checkConfig } from './check-config.ts'
import { ping, type PingOptions } from './ping.ts'
import { describeUsage } from './describe-usage.ts'
import { exitCodes, UsageError, type CliStreams, type ExitCode, type JsonOption } from './report.ts'

const timeoutMsMax = 600_000
const daysMax = 3_650

const jsonOption = () =>
  new Option('--json <file>', 'write the machine-readable result ("-": standard output)')

function milliseconds(text: string): number {
  const value = Number(text)
  if (/^\d{1,6}$/.test(text) && value >= 1 && value <= timeoutMsMax) return value
  throw new InvalidArgumentError(`write milliseconds from 1 to ${timeoutMsMax}`)
}

function days(text: string): number {
  const value = Number(text)
  if (/^\d{1,4}$/.test(text) && value >= 1 && value <= daysMax) return value
  throw new InvalidArgumentError(`write days from 1 to ${daysMax}`)
}

function addCerts(program: Command, streams: CliStreams, setExitCode: SetExitCode): void {
  program
    .command('certs')
    .description('make a development CA, and a certificate for each engine')
    .requiredOption('--dir <directory>', 'where they are written; a CA that is there is used again')
    .requiredOption('--engine <id...>', 'engines that get a certificate')
    .option('--days <n>', 'how long they are valid', days, 365)
    .option('--force', 'overwrite certificates of these engines (never the CA)')
    .addOption(jsonOption())
    .allowExcessArguments(false)
    .addHelpText('after', '\nExample:\n  kvferry certs --dir tls --engine p0 d0')
    .action(async (options: CertsOptions) => {
      setExitCode(await certs(options, streams))
    })
}

type SetExitCode = (code: ExitCode) => void

function createProgram(streams: CliStreams, setExitCode: SetExitCode): Command {
  const program = new Command('kvferry')
    .description('Checks the configuration of KVFerry engines and the way to their side channels')
    .exitOverride()
    .configureOutput({
      writeOut: (text) => streams.stdout(text),
      writeErr: (text) => streams.stderr(text),
      // Its complaints are printed by runCli, with the command's name, on one line.
      outputError: () => {},
    })
    .addHelpText('after', '\nExample:\n  kvferry check-config kvferry.yaml')
    .action((_: unknown, { args }: Command) => {
      const found = args[0] === undefined ? 'no command' : `unknown command "${args[0]}"`
      throw new UsageError(`${found}: use certs, check-config or ping (kvferry --help)`)
    })
    .allowExcessArguments()

  program
    .command('check-config')
    .description('read a configuration file and say everything that is wrong with it')
    .argument('<file>', 'kvferry.yaml, or JSON')
    .addOption(jsonOption())
    .allowExcessArguments(false)
    .addHelpText('after', '\nExample:\n  kvferry check-config kvferry.yaml')
    .action(async (file: string, options: JsonOption) => {
      setExitCode(await checkConfig(file, options, streams))
    })

  program
    .command('ping')
    .description('exchange hellos with a running engine and show who it is')
    .argument('<host:port>', 'side channel of the engine')
    .option('--engine-id <id>', 'fail unless this engine answers')
    .option('--timeout <ms>', 'give up after this time', milliseconds, limits.sideChannelTimeoutMs)
    .option('--insecure', 'talk to another machine without certificates')
    .option('--ca <file>', 'CA certificate: talk under mutual TLS, with --cert and --key')
    .option(
      '--cert <file>',
      'a certificate of its own: an engine’s would end that engine’s connection',
    )
    .option('--key <file>', 'private key of --cert')
    .addOption(jsonOption())
    .allowExcessArguments(false)
    .addHelpText('after', '\nExample:\n  kvferry ping 127.0.0.1:5600 --engine-id p0')
    .action(async (target: string, options: PingOptions) => {
      setExitCode(await ping(target, options, streams))
    })
  addCerts(program, streams, setExitCode)
  return program
}

export async function runCli(argv: readonly string[], streams: CliStreams): Promise<ExitCode> {
  let exitCode: ExitCode = exitCodes.success
  const program = createProgram(streams, (code) => {
    exitCode = code
  })
  try {
    await program.parseAsync(argv, { from: 'user' })
    return exitCode
  } catch (error) {
    // `--help` comes as an exception with code 0.
    if (error instanceof CommanderError && error.exitCode === 0) return exitCodes.success
    if (!(error instanceof CommanderError) && !(error instanceof UsageError)) throw error
    streams.stderr(`kvferry: ${describeUsage(error)}\n`)
    return exitCodes.usage
  }
}
