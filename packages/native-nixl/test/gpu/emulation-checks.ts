/** What real descriptors cost, and whether emulation is told from a link. Needs NIXL's own library: a fake has no link. */
import assert from 'node:assert/strict'
import { Fixture } from '../children.ts'
import type { EmulationVerdict } from '../fixtures/emulation-probe.ts'
import type { GpuCheck, GpuScope } from './check.ts'

async function verdictOf(scope: GpuScope, environment: Record<string, string>) {
  const devices = [0, scope.gpuCount - 1].map(String)
  const probe = new Fixture('emulation-probe', { parameters: devices, environment })
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
      name: 'emulation: without cuda_ipc both directions are found to be emulated',
      async run() {
        const { directions, text } = await verdictOf(scope, { UCX_TLS: 'cuda_copy,tcp' })
        assert.deepEqual(directions, ['read', 'write'], text)
      },
    },
    {
      name: 'emulation: a link between two GPUs is found to be none',
      async run() {
        if (scope.gpuCount < 2) return { skipped: 'there is one GPU, and no link' }
        const { directions, text } = await verdictOf(scope, {})
        assert.deepEqual(directions, [], text)
        return undefined
      },
    },
    {
      name: 'emulation: within one GPU, WRITEs are direct',
      async run() {
        const { directions, text } = await verdictOf({ ...scope, gpuCount: 1 }, {})
        assert.ok(!directions.includes('write'), text)
      },
    },
  ]
}
