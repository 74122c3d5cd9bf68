// The GPU tests and measurements of native-nixl as programs that need neither sources nor a test runner.
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { root } from './setup.mjs'

/** Everything that one of them starts is among them. */
export const gpuPrograms = [
  'device-owner',
  'emulation-probe',
  'gpu-rates',
  'gpu-rates-peer',
  'gpu-suite',
  'ipc-writer',
  'peer-process',
]

/** Builds them, and the addon; answers their folder. */
export async function buildGpuPrograms() {
  const builder = pathToFileURL(join(root, 'packages/native-nixl/test/build-fixtures.mjs'))
  const { buildFixtures } = await import(builder.href)
  return buildFixtures()
}
