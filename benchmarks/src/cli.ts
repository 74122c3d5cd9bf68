/**
 * The process around `kvferry-bench`: signals and exit code. The first signal ends the run in order
 * (children first). A later one ends it at once: children are killed in the exit hook.
 */
import { limits } from './limits.ts'
import { main } from './main.ts'

const signalNumbers = { SIGINT: 2, SIGTERM: 15, SIGHUP: 1 } as const
const interrupted = new AbortController()
let first: { readonly exitCode: number; readonly atMs: number } | null = null

for (const [name, number] of Object.entries(signalNumbers)) {
  process.on(name, () => {
    const atMs = performance.now()
    if (first === null) {
      first = { exitCode: 128 + number, atMs }
      interrupted.abort(new Error(`interrupted by ${name}`))
      return
    }
    // One Ctrl-C often arrives twice: from the terminal, and passed on by npm or `timeout`.
    if (atMs - first.atMs >= limits.secondSignalAfterMs) process.exit(first.exitCode)
  })
}

const exitCode = await main(process.argv.slice(2), {
  stdout: process.stdout,
  stderr: process.stderr,
  signal: interrupted.signal,
})
process.exitCode = (first as { exitCode: number } | null)?.exitCode ?? exitCode
