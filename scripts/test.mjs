#!/usr/bin/env node
// `npm test`: set-up, then every gate in order, each named and timed. Later gates run although an earlier
// one failed, so that one run shows everything. Last line: `N passed, N failed, N skipped`.
// `--only NAME[,NAME]` runs the named gates; `--list` names them.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
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
    return { passed: code === 0 ? 1 : 0, failed: code === 0 ? 0 : 1, skipped: [] }
  }
}

/** Reads vitest's JSON report; a run that left none counts as one failure, whatever its exit code. */
function vitest(projects, extra = [], extraEnv = {}) {
  return async () => {
    const folder = mkdtempSync(join(tmpdir(), 'kvferry-test-'))
    const report = join(folder, 'report.json')
    try {
      const args = ['run', '--reporter=default', '--reporter=json', `--outputFile.json=${report}`]
      // Not through the shim: the shell that it is would be preloaded with a sanitizer as well.
      const entry = join(root, 'node_modules', 'vitest', 'vitest.mjs')
      const { code } = await run(
        process.execPath,
        [entry, ...args, ...extra, ...projects.flatMap((name) => ['--project', name])],
        { cwd: root, env: { ...env, ...extraEnv } },
      )
      return readReport(report, code)
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  }
}

function readReport(path, code) {
  let report
  try {
    report = JSON.parse(readFileSync(path, 'utf8'))
  } catch {
    return { passed: 0, failed: 1, skipped: [] }
  }
  const skipped = report.testResults.flatMap((file) =>
    file.assertionResults
      .filter((test) => ['skipped', 'pending', 'todo'].includes(test.status))
      .map((test) => test.fullName),
  )
  const brokenFiles = report.testResults.filter(
    (file) =>
      file.status === 'failed' && file.assertionResults.every((test) => test.status !== 'failed'),
  ).length
  const failed = report.numFailedTests + brokenFiles
  return { passed: report.numPassedTests, failed: code !== 0 && failed === 0 ? 1 : failed, skipped }
}

/** The C++ half's own tests, built with a sanitizer; their last line has the counts. */
function native(sanitizer) {
  return async () => {
    const { code, output } = await run(
      process.execPath,
      [nativeBuild, '--tests', sanitizer, '--run'],
      {
        cwd: root,
        quiet: true,
      },
    )
    const counts = /(\d+) passed, (\d+) failed\s*$/.exec(output.trim())
    const failed = counts ? Number(counts[2]) : 1
    if (code !== 0 || failed > 0) process.stderr.write(output)
    return {
      passed: counts ? Number(counts[1]) : 0,
      failed: code !== 0 && failed === 0 ? 1 : failed,
      skipped: [],
    }
  }
}

/** What `KVFERRY_TEST_VLLM=1` runs of real vLLM, so that a whole run keeps to its time; `all` runs the rest too. */
const vllmScenarios = ['equal', 'push', 'faults']

/** Real vLLM: 1.1 GB to download the first time, so only where it's asked for. */
async function vllm() {
  const wish = process.env.KVFERRY_TEST_VLLM
  if (wish !== '1' && wish !== 'all') {
    const reason = 'real vLLM: set KVFERRY_TEST_VLLM=1 (2.8 GB in the cache folder, 4 minutes)'
    return { passed: 0, failed: 0, skipped: [reason] }
  }
  const names = wish === 'all' ? [] : vllmScenarios
  const left =
    names.length === 0 ? [] : ['real vLLM: two servers, push with faults: `npm run test:vllm`']
  const args = [join(root, 'scripts', 'vllm-test.mjs'), '--no-setup', ...names]
  const { code, output } = await run(process.execPath, args, { cwd: root, env, tee: true })
  const summary = output.match(/^\d+ passed, \d+ failed, \d+ skipped$/gm)?.at(-1)
  const [passed, failed, skipped] = (summary ?? '0 0 0').match(/\d+/g).map(Number)
  return {
    passed,
    failed: code !== 0 && failed === 0 ? 1 : failed,
    skipped: [...Array.from({ length: skipped }, () => 'real vLLM'), ...left],
  }
}

/** Tests that start processes of their own don't share the machine with one another. */
const oneByOne = ['--no-file-parallelism']
/** By itself vitest leaves one core idle, which of two is half the machine. */
const bothCores = ['--maxWorkers=2']

/**
 * The addon in Node under ASan and UBSan, over the fake library, and over NIXL where it is. Leaks are looked
 * for where every process ends naturally: on process.exit Node frees nothing, and Node 24 not all at its end.
 */
const asanRuns = [
  {
    leaks: 1,
    files: ['kernels', 'native-', 'pass-fd', 'faults', 'plugins', 'conformance-fake'],
  },
  { leaks: 0, files: ['shared-memory', 'collection', 'process-exit', 'other-node'] },
]

async function nativeNodeAsan() {
  const failure = { passed: 0, failed: 1, skipped: [] }
  const args = [nativeBuild, '--addon-asan']
  const built = await run(process.execPath, args, { cwd: root, quiet: true })
  if (built.code !== 0) {
    process.stderr.write(built.output)
    return failure
  }
  const compiler = process.env.CXX || 'g++'
  const found = await run(compiler, ['-print-file-name=libasan.so'], { capture: true })
  const runtime = found.output.trim()
  if (!runtime.startsWith('/')) {
    return {
      passed: 0,
      failed: 0,
      skipped: [`the addon under ASan: ${compiler} has no libasan.so`],
    }
  }
  const total = { passed: 0, failed: 0, skipped: [] }
  for (const { leaks, files } of asanRuns) {
    const result = await vitest(
      ['native-nixl'],
      [...oneByOne, ...files.map((file) => `test/${file}`)],
      {
        KVFERRY_NATIVE_ADDON: join(root, 'packages/native-nixl/build/asan/kvferry_nixl.node'),
        LD_PRELOAD: runtime,
        ASAN_OPTIONS: `detect_leaks=${leaks}`,
      },
    )()
    total.passed += result.passed
    total.failed += result.failed
    total.skipped.push(...result.skipped)
  }
  return total
}

const gates = {
  tidy: check(process.execPath, ['scripts/tidy.mjs']),
  'check-packages': check(process.execPath, ['scripts/check-packages.mjs']),
  format: check(bin('prettier'), ['--check', '--log-level', 'warn', '.']),
  types: check(bin('tsc'), ['-p', 'tsconfig.json']),
  lint: check(bin('eslint'), ['.', '--max-warnings', '0']),
  links: check('npm', ['run', '--silent', 'docs:links']),
  docs: check('npm', ['run', '--silent', 'docs:build']),
  unit: vitest(
    [
      'connector-api',
      'connector-pull',
      'connector-push',
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
  processes: vitest(['e2e'], oneByOne),
  vllm,
}

/**
 * Gates of one stage run at the same time, stages one after another: checks use one core each, and tests
 * that look at processes, deadlines or memory want the machine for themselves. Those of the addon take one
 * core, with and without a sanitizer.
 */
const stages = [
  ['tidy', 'check-packages', 'format', 'types', 'lint', 'links', 'docs'],
  ['unit'],
  ['native-asan', 'native-tsan'],
  ['native-node', 'native-node-asan'],
  ['processes'],
  ['vllm'],
]

async function runGate(name) {
  const start = process.hrtime.bigint()
  const result = await gates[name]()
  const seconds = Number(process.hrtime.bigint() - start) / 1e9
  const { passed, failed, skipped } = result
  process.stderr.write(
    `test: ${name}: ${passed} passed, ${failed} failed, ${skipped.length} skipped (${seconds.toFixed(1)} s)\n`,
  )
  return result
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
    process.stdout.write('0 passed, 1 failed, 0 skipped\n')
    return 1
  }
  const total = { passed: 0, failed: 0, skipped: [] }
  for (const stage of stages) {
    const names = stage.filter((name) => !only || only.includes(name))
    for (const { passed, failed, skipped } of await Promise.all(names.map(runGate))) {
      total.passed += passed
      total.failed += failed
      total.skipped.push(...skipped)
    }
  }
  for (const title of total.skipped) process.stdout.write(`skipped: ${title}\n`)
  process.stdout.write(
    `${total.passed} passed, ${total.failed} failed, ${total.skipped.length} skipped\n`,
  )
  return total.failed === 0 ? 0 : 1
}

await runMain(main)
