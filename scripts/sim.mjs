#!/usr/bin/env node
// `npm run sim`: the seeded simulation of one connector, beyond the seeds that every test run looks at. A
// connector that is simulated in several ways has a name for each (push, push-progressive).
//   npm run sim -- --connector pull --seeds 5000          seeds 1 … 5000
//   npm run sim -- --connector pull --seed 4711           that one: a failing one prints its transcript
//   npm run sim -- --connector pull --from 501 --seeds 500
import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { spawnSync } from 'node:child_process'

const root = dirname(dirname(fileURLToPath(import.meta.url)))

/** One clear line, exit code 2. */
function wrongUsage(text) {
  process.stderr.write(`sim: ${text}\n`)
  process.exit(2)
}

const help = `npm run sim -- --connector NAME [--seeds N] [--from N] [--seed N]

  --connector NAME   pull, push, push-progressive, … (default pull)
  --seeds N          how many seeds (default 500)
  --from N           the first one (default 1)
  --seed N           one seed

Example: npm run sim -- --connector pull --seed 4711
`

function readArguments() {
  try {
    return parseArgs({
      options: {
        connector: { type: 'string', default: 'pull' },
        seeds: { type: 'string', default: '500' },
        from: { type: 'string', default: '1' },
        seed: { type: 'string' },
        help: { type: 'boolean', default: false },
      },
    }).values
  } catch (error) {
    return wrongUsage(error.message)
  }
}

const values = readArguments()
if (values.help) {
  process.stdout.write(help)
  process.exit(0)
}
const { connector } = values
for (const name of ['from', 'seeds', 'seed']) {
  const value = values[name]
  if (value === undefined || /^[1-9]\d{0,8}$/.test(value)) continue
  wrongUsage(`--${name} ${value}: not a positive integer`)
}
const [first, count] = values.seed === undefined ? [values.from, values.seeds] : [values.seed, '1']
const project = `connector-${connector.split('-')[0]}`
const test = join('packages', project, 'test', `${connector}.sim.test.ts`)
if (!/^[a-z-]+$/.test(connector) || !existsSync(join(root, test))) {
  wrongUsage(`--connector ${connector}: there is no ${test}`)
}

const vitest = join(root, 'node_modules', '.bin', 'vitest')
const { status } = spawnSync(vitest, ['run', '--project', project, test], {
  cwd: root,
  stdio: 'inherit',
  env: { ...process.env, KVFERRY_SIM_FIRST: first, KVFERRY_SIM_SEEDS: count },
})
process.exitCode = status === 0 ? 0 : 1
