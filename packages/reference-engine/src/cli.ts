/**
 * `kvferry-engine`: runs the command in this process. SIGTERM and SIGINT end it gracefully; a second one
 * ends it at once.
 */
import { onStopRequest } from '@kvferry/runtime'
import { runCli } from './run-cli.ts'

/** Everything is closed by then; what still keeps the process alive is not worth waiting for. */
const exitDelayMs = 500

process.exitCode = await runCli(process.argv.slice(2), {
  writeOut: (text) => void process.stdout.write(text),
  writeError: (text) => void process.stderr.write(text),
  onStop: (listener, { stdinEnd }) => onStopRequest(() => listener(), { stdinEnd }),
})
setTimeout(() => process.exit(), exitDelayMs).unref()
