/**
 * The commands of `kvferry`: arguments in, exit code out (0 success, 1 a failed check, 2 wrong usage with
 * one line on stderr). Touches the process nowhere; cli.ts connects it.
 */
import { Command, CommanderError, InvalidArgumentError, Option } from 'commander'
import { limits } from '@kvferry/connector-api'
import { checkConfig } from './check-config.ts'
import { ping, type PingOptions } from './ping.ts'
import { exitCodes, UsageError, type CliStreams, type ExitCode, type JsonOption } from './report.ts'

const timeoutMsMax = 600_000

const jsonOption = () =>
  new Option('--json <file>', 'write the machine-readable result ("-": standard output)')

function milliseconds(text: string): number {
  const value = Number(text)
  if (/^\d{1,6}$/.test(text) && value >= 1 && value <= timeoutMsMax) return value
  throw new InvalidArgumentError(`write milliseconds from 1 to ${timeoutMsMax}`)
}

function createProgram(streams: CliStreams, setExitCode: (code: ExitCode) => void): Command {
  const program = new Command('kvferry')
    .description('Checks the configuration of KVFerry engines and the way to their side channels')
    .exitOverride()
    .configureOutput({
      writeOut: (text) => streams.stdout(text),
      writeErr: (text) => streams.stderr(text),
    })
    .addHelpText('after', '\nExample:\n  kvferry check-config kvferry.yaml')
    .action((_: unknown, { args }: Command) => {
      const found = args[0] === undefined ? 'no command' : `unknown command "${args[0]}"`
      throw new UsageError(`${found}: use check-config or ping (kvferry --help)`)
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
    .addOption(jsonOption())
    .allowExcessArguments(false)
    .addHelpText('after', '\nExample:\n  kvferry ping 127.0.0.1:5600 --engine-id p0')
    .action(async (target: string, options: PingOptions) => {
      setExitCode(await ping(target, options, streams))
    })
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
    // `--help` comes as an exception with code 0; commander has printed its own complaints.
    if (error instanceof CommanderError) {
      return error.exitCode === 0 ? exitCodes.success : exitCodes.usage
    }
    if (!(error instanceof UsageError)) throw error
    streams.stderr(`kvferry: ${error.message}\n`)
    return exitCodes.usage
  }
}
