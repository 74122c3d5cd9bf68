#!/usr/bin/env node
// `npm test`: set-up, then every gate in order, each named and timed. Later gates run although an earlier
// one failed, so that one run shows everything. The end: `skipped: TITLE` and `failed: GATE: TITLE` each on a
// line, then `N passed, N failed, N skipped`.
// `--only NAME[,NAME]` runs the named gates; `--list` names them.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  resultOfCheck,
  resultOfNative,
  resultOfVitest,
  resultOfVllm,
  sumOf,
  summaryOf,
} from './gate-results.mjs'
import { assertPlaced, runStages, stages } from './gate-stages.mjs'
import { run } from './process.mjs'
import { SetupError, root, runMain, setup, toolsPath } from './setup.mjs'

const env = { PATH: toolsPath, CI: 'true', NO_COLOR: '1' }
const bin = (name) => join(root, 'node_modules', '.bin', name)
const nativeBuild = join(root, 'packages', 'native-nixl', 'native', 'build.mjs')

/** A gate that only says yes or no counts as one test. */
function check(command, args) {
  return async () => {
    const { code, output } = await run(command, args, { cwd: root, env, quiet: true })
    if (code !== 0) process.stderr.write(output)
    return resultOfCheck(code, output)
  }
}

function vitest(projects, extra = [], extraEnv = {}) {
  return async () => {
    const folder = mkdtempSync(join(tmpdir(), 'kvferry-test-'))
    const reportFile = join(folder, 'report.json')
    try {
      const args = [
        ...['run', '--reporter=default', '--reporter=json'],
        `--outputFile.json=${reportFile}`,
      ]
      // Not through the shim: the shell that it is would be preloaded with a sanitizer as well.
      const entry = join(root, 'node_modules', 'vitest', 'vitest.mjs')
      const { code, output } = await run(
        process.execPath,
        [entry, ...args, ...extra, ...projects.flatMap((name) => ['--project', name])],
        { cwd: root, env: { ...env, ...extraEnv }, tee: true },
      )
      return resultOfVitest({ reportFile, root, code, output })
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  }
}

/** The C++ half's own tests, built with a sanitizer. */
function native(sanitizer) {
  return async () => {
    // That each file includes what it needs shows only where it is compiled by itself, for twice the time.
    const each = process.env.KVFERRY_TEST_LONG === '1' && sanitizer === 'asan' ? ['--each'] : []
    const args = [nativeBuild, '--tests', sanitizer, '--run', ...each]
    const { code, output } = await run(process.execPath, args, { cwd: root, quiet: true })
    const result = resultOfNative(code, output)
    if (result.failed.length > 0) process.stderr.write(output)
    return result
  }
}

/** What `KVFERRY_TEST_VLLM=1` runs of real vLLM, so that a whole run keeps to its time; `all` runs the rest too. */
const vllmScenarios = ['equal', 'malformed', 'host-killed', 'push', 'mixed']
/** How long these may take on two cores, beside two compilers: a quarter of a whole run. */
const vllmSecondsMax = 300

/** Real vLLM: 1.1 GB to download the first time, so only where it's asked for. */
async function vllm() {
  const wish = process.env.KVFERRY_TEST_VLLM
  if (wish !== '1' && wish !== 'all') {
    const reason = 'real vLLM: set KVFERRY_TEST_VLLM=1 (2.8 GB in the cache folder, 4 minutes)'
    return { passed: 0, failed: [], skipped: [reason] }
  }
  const names = wish === 'all' ? [] : vllmScenarios
  const left =
    names.length === 0
      ? []
      : ['real vLLM: xavier with its history, more faults, servers, times: `npm run test:vllm`']
  // Compilers run beside it, so the hooks' times are only printed.
  const options = ['--no-setup', '--no-bars']
  if (names.length > 0) options.push(`--seconds-max=${vllmSecondsMax}`)
  const args = [join(root, 'scripts', 'vllm-test.mjs'), ...options, ...names]
  const { code, output } = await run(process.execPath, args, { cwd: root, env, tee: true })
  const result = resultOfVllm(code, output)
  return { ...result, skipped: [...result.skipped, ...left] }
}

/** Tests that start processes of their own don't share the machine with one another. */
const oneByOne = ['--no-file-parallelism']
/** By itself vitest leaves one core idle, which of two is half the machine. */
const bothCores = ['--maxWorkers=2']

/** Files of e2e in the other lane, so that both take as long. None measures, or waits for what a busy machine is late with. */
const secondLane = ['flipped-byte', 'tensor-parallel', 'sweep', 'publish', 'installed-tree']
const inFirstLane = secondLane.map((name) => `--exclude=**/${name}.test.ts`)
const inSecondLane = secondLane.map((name) => `test/${name}.test.ts`)

/**
 * Agents whose conformance runs under ASan. Slabs and ipc within one process on a fake GPU take minutes there, and their clauses
 * wait a bounded time: without `KVFERRY_TEST_LONG` slabs in host memory, and ipc between processes, stand for them.
 */
const asanConformance =
  process.env.KVFERRY_TEST_LONG === '1'
    ? ['conformance-fake']
    : ['', '-slabs', '-device', '-processes-ipc'].map((kind) => `conformance-fake${kind}.test`)

/**
 * The addon in Node under ASan and UBSan, over the fake library, and over NIXL where it is. Leaks are looked
 * for where every process ends naturally: on process.exit Node frees nothing, and Node 24 not all at its end.
 */
const asanRuns = [
  {
    leaks: 1,
    files: ['kernels', 'native-', 'pass-fd', 'faults', 'plugins', ...asanConformance],
  },
  { leaks: 0, files: ['shared-memory', 'collection', 'process-exit', 'other-node'] },
]

async function nativeNodeAsan() {
  const built = await check(process.execPath, [nativeBuild, '--addon-asan'])()
  if (built.failed.length > 0) return built
  const compiler = process.env.CXX || 'g++'
  const found = await run(compiler, ['-print-file-name=libasan.so'], { capture: true })
  const runtime = found.output.trim()
  if (!runtime.startsWith('/')) {
    const reason = `the addon under ASan: ${compiler} has no libasan.so`
    return { passed: 0, failed: [], skipped: [reason] }
  }
  const results = []
  for (const { leaks, files } of asanRuns) {
    const runTests = vitest(
      ['native-nixl'],
      [...oneByOne, ...files.map((file) => `test/${file}`)],
      {
        KVFERRY_NATIVE_ADDON: join(root, 'packages/native-nixl/build/asan/kvferry_nixl.node'),
        LD_PRELOAD: runtime,
        ASAN_OPTIONS: `detect_leaks=${leaks}`,
      },
    )
    results.push(await runTests())
  }
  return sumOf(results)
}

const gates = {
  tidy: check(process.execPath, ['scripts/tidy.mjs']),
  scripts: check(process.execPath, [
    '--test',
    'scripts/gate-results.test.mjs',
    'scripts/gate-stages.test.mjs',
  ]),
  'check-packages': check(process.execPath, ['scripts/check-packages.mjs']),
  format: check(bin('prettier'), ['--check', '--log-level', 'warn', '.']),
  'types-lint': check(process.execPath, ['scripts/lint.mjs']),
  links: check('npm', ['run', '--silent', 'docs:links']),
  docs: check('npm', ['run', '--silent', 'docs:build']),
  unit: vitest(
    [
      'connector-api',
      'connector-pull',
      'connector-push',
      'connector-xavier',
      'kv-history',
      'runtime',
      'router',
      'reference-engine',
      'benchmarks',
      'vllm-bridge',
    ],
    bothCores,
  ),
  'native-asan': native('asan'),
  'native-tsan': native('tsan'),
  'native-node': vitest(['native-nixl'], oneByOne),
  'native-node-asan': nativeNodeAsan,
  processes: vitest(['e2e'], [...oneByOne, ...inFirstLane]),
  'processes-2': vitest(['e2e'], [...oneByOne, ...inSecondLane]),
  vllm,
}

assertPlaced(Object.keys(gates))

async function runGate(name) {
  const start = process.hrtime.bigint()
  const result = await gates[name]()
  const seconds = Number(process.hrtime.bigint() - start) / 1e9
  const { passed, failed, skipped } = result
  process.stderr.write(
    `test: ${name}: ${passed} passed, ${failed.length} failed, ${skipped.length} skipped (${seconds.toFixed(1)} s)\n`,
  )
  // The same title may fail in two gates.
  return { ...result, failed: failed.map((title) => `${name}: ${title}`) }
}

async function main() {
  const args = process.argv.slice(2)
  if (args.includes('--list')) {
    process.stdout.write(`${Object.keys(gates).join('\n')}\n`)
    return 0
  }
  const only = args.includes('--only') ? args[args.indexOf('--only') + 1]?.split(',') : null
  const unknown = only?.find((name) => !(name in gates))
  if (unknown !== undefined) {
    process.stderr.write(`test: no gate "${unknown}"; --list names them\n`)
    return 2
  }
  try {
    await setup()
  } catch (error) {
    if (!(error instanceof SetupError)) throw error
    process.stderr.write(`test: set-up failed: ${error.message}\n`)
    const failed = [`set-up: ${error.message.split('\n')[0]}`]
    process.stdout.write(summaryOf({ passed: 0, failed, skipped: [] }))
    return 1
  }
  const isChosen = (name) => !only || only.includes(name)
  const chosen = stages.map((lanes) => lanes.map((names) => names.filter(isChosen)))
  const total = sumOf(await runStages(chosen, runGate))
  process.stdout.write(summaryOf(total))
  return total.failed.length === 0 ? 0 : 1
}

await runMain(main)
