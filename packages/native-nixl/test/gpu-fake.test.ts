/** What gpu-suite checks on real GPUs, over the fake driver: the same kernels' text, run on the host. */
import './fake-cuda.ts'
import { describe, test } from 'vitest'
import { createFakeHarness } from './conformance-harness.ts'
import { fakeLibraryPath } from './fake-library.ts'
import { fenceChecks } from './gpu/fence-checks.ts'
import { historyChecks } from './gpu/history-checks.ts'
import { ipcChecks } from './gpu/ipc-checks.ts'
import { kernelChecks } from './gpu/kernel-checks.ts'
import { memoryChecks } from './gpu/memory-checks.ts'

process.env['KVFERRY_NIXL_LIBRARY'] = fakeLibraryPath

const scope = { gpuCount: 2, runCount: 60 }

describe('GPU memory, kernels, history and ipc over the fake driver', () => {
  const checks = [
    ...memoryChecks(scope),
    ...kernelChecks(scope),
    ...historyChecks(),
    ...ipcChecks(scope),
    ...fenceChecks(createFakeHarness('descriptors', 0)),
  ]
  for (const { name, run } of checks) {
    test(name, async ({ skip }) => {
      const outcome = await run()
      if (outcome) skip(outcome.skipped)
    })
  }
})
