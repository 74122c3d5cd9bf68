/**
 * The process around `kvferry-bench`: signals and exit code. The first signal ends the run in order
 * (children first), a second one at once (children are killed in the exit hook).
 */
import { main } from './main.ts'

const signalNumbers = { SIGINT: 2, SIGTERM: 15, SIGHUP: 1 } as const
const interrupted = new AbortController()
let signalExitCode: number | null = null

for (const [name, number] of Object.entries(signalNumbers)) {
  process.on(name, () => {
    if (signalExitCode !== null) process.exit(signalExitCode)
    signalExitCode = 128 + number
    interrupted.abort(new Error(`interrupted by ${name}`))
  })
}

const exitCode = await main(process.argv.slice(2), {
  stdout: process.stdout,
  stderr: process.stderr,
  signal: interrupted.signal,
})
process.exitCode = signalExitCode ?? exitCode
