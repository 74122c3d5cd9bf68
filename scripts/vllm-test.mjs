#!/usr/bin/env node
// `npm run test:vllm`: pull, push and xavier inside real vLLM on this machine's CPU, against the single engine's
// texts and with faults, and the time that hooks take of the engine's thread against its limit. Makes the environment
// the first time (2.8 GB on disk). Last line: `N passed, N failed, N skipped`. Names of scenarios (run.py) run these
// alone. `--no-setup`: the clone is set up already; `--no-bars`: times are printed and not judged, for other things run
// on this machine; `--seconds-max=N`: one check more, that the scenarios take no longer. `npm test` gives all three.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { run } from './process.mjs'
import { root, runMain, setup } from './setup.mjs'
import { EnvironmentError, vllmEnvironment } from './vllm-environment.mjs'

const bridge = join(root, 'packages', 'vllm-bridge')
const tests = join(bridge, 'test', 'vllm')

/** vLLM's own settings: no network, no telemetry, one thread, no pinning. Bytecode is wanted: imports take thrice as long without. */
const settings = {
  HF_HUB_OFFLINE: '1',
  TRANSFORMERS_OFFLINE: '1',
  VLLM_NO_USAGE_STATS: '1',
  VLLM_CPU_CI_ENV: '1',
  VLLM_CPU_OMP_THREADS_BIND: 'nobind',
  VLLM_LOGGING_LEVEL: 'WARNING',
  OMP_NUM_THREADS: '1',
  TOKENIZERS_PARALLELISM: 'false',
  PYTHONDONTWRITEBYTECODE: '',
  PYTHONUNBUFFERED: '1',
  PYTHONPATH: join(bridge, 'python'),
  KVFERRY_NODE: process.execPath,
}

/** In a temporary folder of its own: vLLM leaves files of its process group in it, also after a clean end. */
async function runScenarios(python, model, args) {
  const folder = mkdtempSync(join(tmpdir(), 'kvferry-vllm-'))
  try {
    return await run(python, [join(tests, 'run.py'), model, ...args], {
      env: { ...settings, TMPDIR: folder },
      tee: true,
    })
  } finally {
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
  }
}

async function main() {
  const args = process.argv.slice(2)
  const own = ['--no-setup', '--no-bars']
  const bars = args.includes('--no-bars') ? [] : ['--bars']
  const scenarios = [...args.filter((arg) => !own.includes(arg)), ...bars]
  if (!args.includes('--no-setup')) await setup()
  try {
    const start = process.hrtime.bigint()
    const { python, model } = await vllmEnvironment(tests)
    const { code, output } = await runScenarios(python, model, scenarios)
    const seconds = Number(process.hrtime.bigint() - start) / 1e9
    const summary = output.match(/^\d+ passed, \d+ failed, \d+ skipped$/gm)?.at(-1)
    process.stderr.write(`vllm: ${seconds.toFixed(0)} s\n`)
    process.stdout.write(`${summary ?? '0 passed, 1 failed, 0 skipped'}\n`)
    return code === 0 && summary ? 0 : 1
  } catch (error) {
    if (!(error instanceof EnvironmentError)) throw error
    process.stderr.write(`vllm: ${error.message}\n`)
    process.stdout.write('0 passed, 1 failed, 0 skipped\n')
    return 1
  }
}

await runMain(main)
