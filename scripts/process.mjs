// Runs child processes for the other scripts. Owns nothing else; no dependencies, since it runs before
// anything is installed.
import { spawn } from 'node:child_process'

/**
 * Runs a command to its end. Output goes to our stderr (stdout belongs to results) unless captured.
 * Resolves with the exit code and, when `capture`, `quiet` or `tee` (captured and shown) is set, the output;
 * never rejects for a non-zero code.
 */
export function run(command, args, { cwd, env, capture = false, quiet = false, tee = false } = {}) {
  return new Promise((resolve) => {
    const child = spawn(command, args, {
      cwd,
      env: { ...process.env, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    let output = ''
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (chunk) => {
        if (capture || quiet || tee) output += chunk
        if (!quiet && !capture) process.stderr.write(chunk)
      })
    }
    child.on('error', (error) => resolve({ code: 127, output: String(error.message) }))
    child.on('close', (code, signal) => resolve({ code: code ?? 1, output, signal }))
    const stop = () => child.kill('SIGTERM')
    process.once('SIGINT', stop)
    process.once('SIGTERM', stop)
    child.on('close', () => {
      process.removeListener('SIGINT', stop)
      process.removeListener('SIGTERM', stop)
    })
  })
}
