#!/usr/bin/env node
// `npm start`: set-up, then the demonstration, on screen and as a page. Without NIXL it goes on with the in-memory agent and says
// so in its first line; nothing else in the project falls back.
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { root, runMain, setup } from './setup.mjs'

// Each connector once, so that it stays a matter of a minute. What the user adds comes after it and wins.
const demonstration = [
  ...[
    'compare',
    '--preset',
    'quick',
    '--connectors',
    'pull,push,xavier',
    '--posting',
    'background',
  ],
  ...['--demo', '--html', 'kvferry-report.html'],
]

await runMain(async () => {
  await setup()
  const bin = join(root, 'benchmarks', 'bin', 'kvferry-bench.mjs')
  const child = spawn(process.execPath, [bin, ...demonstration, ...process.argv.slice(2)], {
    cwd: root,
    stdio: 'inherit',
  })
  // The terminal sends Ctrl-C to the whole group; a signal sent to us alone is passed on.
  process.on('SIGINT', () => {})
  process.on('SIGTERM', () => child.kill('SIGTERM'))
  return new Promise((resolve) => {
    child.on('close', (code) => resolve(code ?? 1))
  })
})
