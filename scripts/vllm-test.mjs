#!/usr/bin/env node
// `npm run test:vllm`: pull, push and xavier inside real vLLM on this machine's CPU, against the single engine's
// texts and with faults. Makes the environment the first time (2.8 GB on disk). Last line:
// `N passed, N failed, N skipped`. `--no-setup`: the clone is set up already (`npm test` says so). Names of
// scenarios (run.py) run these alone. `--bars`: times are judged too, for a machine that does nothing else.
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
async function runScenarios(python, model, names) {
  const folder = mkdtempSync(join(tmpdir(), 'kvferry-vllm-'))
  try {
    return await run(python, [join(tests, 'run.py'), model, ...names], {
      env: { ...settings, TMPDIR: folder },
      tee: true,
    })
  } finally {
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
  }
}

async function main() {
  const args = process.argv.slice(2)
  const names = args.filter((arg) => !arg.startsWith('--') || arg === '--bars')
  if (!args.includes('--no-setup')) await setup()
  try {
    const start = process.hrtime.bigint()
    const { python, model } = await vllmEnvironment(tests)
    const { code, output } = await runScenarios(python, model, names)
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
