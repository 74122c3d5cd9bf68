/**
 * `kvferry-router`: runs the command in this process. SIGTERM and SIGINT end it after running requests;
 * a second one ends it at once.
 */
import { createLogger, onStopRequest } from '@kvferry/runtime'
import { runCli } from './run-cli.ts'

process.exitCode = await runCli(process.argv.slice(2), {
  writeOut: (text) => void process.stdout.write(text),
  writeError: (text) => void process.stderr.write(text),
  createLogger: (level) => createLogger({ name: 'kvferry-router', level }),
  onStop: (listener, { stdinEnd }) => onStopRequest(() => listener(), { stdinEnd }),
})
