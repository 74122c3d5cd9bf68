/** As gpu-suite on real GPUs by slabs: two processes and two GPUs, so that a peer dies, or stands still, with slabs lent and borrowed. */
import './fake-cuda.ts'
import { runAgentConformance } from '@kvferry/connector-api/conformance'
import { byThePeer, createRealHarness } from './conformance-harness.ts'
import { fakeLibraryPath } from './fake-library.ts'

process.env['KVFERRY_NIXL_LIBRARY'] = fakeLibraryPath

runAgentConformance(
  'native-nixl on the GPU memory of two processes by slabs, over the fake library and the fake driver',
  createRealHarness({
    environment: {},
    unsupported: { 'remote-registration': byThePeer },
    path: 'slabs',
    devices: [0, 1],
  }),
)
