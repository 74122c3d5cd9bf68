#!/usr/bin/env node
// `npm run test:gpu`: memory, kernels and the agent suite on this machine's GPUs. Without a GPU, or without NIXL, it says so
// and skips. Last line: `N passed, N failed, N skipped`. `--no-setup`: the clone is set up already. Further arguments: parts
// of names to run alone.
import { join } from 'node:path'
import { run } from './process.mjs'
import { runMain, setup } from './setup.mjs'
import { buildGpuPrograms } from './gpu-programs.mjs'

await runMain(async () => {
  const args = process.argv.slice(2)
  if (!args.includes('--no-setup')) await setup()
  const programs = await buildGpuPrograms()
  const names = args.filter((argument) => argument !== '--no-setup')
  const { code, output } = await run(
    process.execPath,
    [join(programs, 'gpu-suite.mjs'), ...names],
    { capture: true },
  )
  process.stdout.write(output)
  return code
})
