/** What real descriptors cost, and whether emulation is told from a link. Needs NIXL's own library: a fake has no link. */
import assert from 'node:assert/strict'
import { Fixture } from '../children.ts'
import type { EmulationVerdict } from '../fixtures/emulation-probe.ts'
import type { GpuCheck, GpuScope } from './check.ts'

async function verdictOf(scope: GpuScope) {
  const devices = [0, scope.gpuCount - 1].map(String)
  const probe = new Fixture('emulation-probe', { parameters: devices })
  try {
    const { emulated, best } = await probe.message<EmulationVerdict>()
    const text = `read ${best.read.toFixed(2)}, write ${best.write.toFixed(2)} GB/s`
    return { directions: emulated.map(({ direction }) => direction).sort(), text }
  } finally {
    await probe.kill()
  }
}

export function emulationChecks(scope: GpuScope): GpuCheck[] {
  return [
    {
      name: 'emulation: a link between two GPUs is found to be none',
      async run() {
        if (scope.gpuCount < 2) return { skipped: 'there is one GPU, and no link' }
        const { directions, text } = await verdictOf(scope)
        assert.deepEqual(directions, [], text)
        return undefined
      },
    },
    {
      // The library WRITEs there by cuda_ipc, and READs through host memory, a thousand times slower.
      name: 'emulation: within one GPU, READs are found to be emulated, and WRITEs not',
      async run() {
        const { directions, text } = await verdictOf({ ...scope, gpuCount: 1 })
        assert.deepEqual(directions, ['read'], text)
      },
    },
  ]
}
