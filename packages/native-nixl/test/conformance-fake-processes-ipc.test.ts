/** As gpu-suite on real GPUs: two processes and two GPUs, so that memory is mapped, peers die, and mappings outlive them. */
import './fake-cuda.ts'
import { runAgentConformance } from '@kvferry/connector-api/conformance'
import { byTheInitiator, createRealHarness } from './conformance-harness.ts'
import { fakeLibraryPath } from './fake-library.ts'

process.env['KVFERRY_NIXL_LIBRARY'] = fakeLibraryPath

runAgentConformance(
  'native-nixl on the GPU memory of two processes by ipc, over the fake library and the fake driver',
  createRealHarness({
    environment: {},
    unsupported: { 'peer-stall': byTheInitiator },
    path: 'ipc',
    devices: [0, 1],
  }),
)
