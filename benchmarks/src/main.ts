/**
 * The command line of `kvferry-bench`, apart from the process it runs in, so that tests can call it.
 */
import { Command, CommanderError } from 'commander'
import { ConnectorError } from '@kvferry/connector-api'
import { describeUsage } from '@kvferry/runtime'
import { addCompareCommand } from './commands/compare-command.ts'
import { addGpusCommand } from './commands/gpus-command.ts'
import { addLoadCommand } from './commands/load-command.ts'
import { addMicroCommand } from './commands/micro-command.ts'
import { addReportCommand } from './commands/report-command.ts'
import { addReuseCommand } from './commands/reuse-command.ts'
import { addSweepCommand } from './commands/sweep-command.ts'
import { addTraceCommand } from './commands/trace-command.ts'
import { MachineError } from './machine-error.ts'
import { UsageError } from './usage-error.ts'

export interface CommandIo {
  readonly stdout: { write(text: string): unknown }
  readonly stderr: { readonly isTTY?: boolean; write(text: string): unknown }
  /** Aborted on Ctrl-C: commands end their children and throw its reason. */
  readonly signal: AbortSignal
}

export const exitCodes = { ok: 0, checkFailed: 1, usage: 2 } as const

function createProgram(io: CommandIo, finish: (exitCode: number) => void): Command {
  const program = new Command('kvferry-bench')
    .description('Compares KV-transfer connectors on the same requests')
    .exitOverride()
    .configureOutput({
      writeOut: (text) => io.stdout.write(text),
      // Complaints are printed by report, on one line; without a command the whole help would be one.
      writeErr: () => {},
      outputError: () => {},
    })
  addCompareCommand(program, io, finish)
  addSweepCommand(program, io, finish)
  addReuseCommand(program, io, finish)
  addLoadCommand(program, io, finish)
  addReportCommand(program, io, finish)
  addMicroCommand(program, io, finish)
  addGpusCommand(program, io, finish)
  addTraceCommand(program, io, finish)
  return program
}

function report(error: unknown, io: CommandIo): number {
  if (error instanceof CommanderError) {
    if (error.exitCode === 0) return exitCodes.ok
    const isNoCommand = error.code === 'commander.help'
    const text = isNoCommand ? 'no command: kvferry-bench --help lists them' : describeUsage(error)
    io.stderr.write(`kvferry-bench: ${text}\n`)
    return exitCodes.usage
  }
  if (error instanceof UsageError) {
    io.stderr.write(`kvferry-bench: ${describeUsage(error)}\n`)
    return exitCodes.usage
  }
  if (io.signal.aborted) {
    io.stderr.write('kvferry-bench: interrupted; all child processes have ended\n')
    return exitCodes.checkFailed
  }
  if (error instanceof MachineError) {
    io.stderr.write(`kvferry-bench: ${error.message}\n`)
    return exitCodes.checkFailed
  }
  if (ConnectorError.isInstance(error)) {
    io.stderr.write(`kvferry-bench: ${error.code}: ${error.message}\n`)
    return exitCodes.checkFailed
  }
  const text = error instanceof Error ? (error.stack ?? error.message) : String(error)
  io.stderr.write(`kvferry-bench: ${text}\n`)
  return exitCodes.checkFailed
}

/** `argv` without node and script. Resolves to the exit code, never rejects. */
export async function main(argv: readonly string[], io: CommandIo): Promise<number> {
  let exitCode: number = exitCodes.ok
  try {
    await createProgram(io, (code) => (exitCode = code)).parseAsync(argv, { from: 'user' })
    return exitCode
  } catch (error) {
    return report(error, io)
  }
}
