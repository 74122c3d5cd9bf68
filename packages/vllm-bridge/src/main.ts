/**
 * `kvferry-vllm-host --socket-fd N`: started by the shim inside vLLM, never by hand. Connects the host to
 * this process: its arguments, its signals, its parent.
 */
import { bridgeLimits } from './limits.ts'
import { runHost } from './host.ts'

/** Everything is closed by then; what still keeps the process alive is not worth waiting for. */
const exitDelayMs = 2_000

function socketFdOf(args: readonly string[]): number | null {
  const [flag, value] = args
  const isGood = args.length === 2 && flag === '--socket-fd' && /^\d{1,6}$/.test(value ?? '')
  return isGood ? Number(value) : null
}

async function main(): Promise<number> {
  const socketFd = socketFdOf(process.argv.slice(2))
  if (socketFd === null) {
    process.stderr.write('kvferry-vllm-host: started by vLLM through kvferry_vllm, not by hand\n')
    return 2
  }
  const parent = process.ppid
  return runHost({
    socketFd,
    onStop(listener) {
      for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, listener)
      setInterval(() => {
        if (process.ppid !== parent) listener('the parent process is gone')
      }, bridgeLimits.parentCheckIntervalMs).unref()
    },
  })
}

process.exitCode = await main()
setTimeout(() => process.exit(), exitDelayMs).unref()
