/** What gpu-suite checks on real GPUs, over the fake driver: the same kernels' text, run on the host. */
import './fake-cuda.ts'
import { describe, test } from 'vitest'
import { fakeLibraryPath } from './fake-library.ts'
import { ipcChecks } from './gpu/ipc-checks.ts'
import { kernelChecks } from './gpu/kernel-checks.ts'
import { memoryChecks } from './gpu/memory-checks.ts'

process.env['KVFERRY_NIXL_LIBRARY'] = fakeLibraryPath

const scope = { gpuCount: 2, runCount: 60 }

describe('GPU memory and kernels over the fake driver', () => {
  for (const { name, run } of [...memoryChecks(scope), ...kernelChecks(scope), ...ipcChecks(scope)])
    test(name, run)
})
