/** As gpu-suite on real GPUs by descriptors: two processes and two GPUs, so that a peer dies with a transfer under way. */
import './fake-cuda.ts'
import { runAgentConformance } from '@kvferry/connector-api/conformance'
import { byTheInitiator, createRealHarness } from './conformance-harness.ts'
import { fakeLibraryPath } from './fake-library.ts'

process.env['KVFERRY_NIXL_LIBRARY'] = fakeLibraryPath

runAgentConformance(
  'native-nixl on the GPU memory of two processes by descriptors, over the fake library and the fake driver',
  createRealHarness({
    environment: {},
    unsupported: { 'peer-stall': byTheInitiator },
    path: 'descriptors',
    devices: [0, 1],
  }),
)
