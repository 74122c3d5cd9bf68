import './fake-cuda.ts'
import { runAgentConformance } from '@kvferry/connector-api/conformance'
import { createFakeHarness } from './conformance-harness.ts'

runAgentConformance(
  'native-nixl on GPU memory by ipc, over the fake library and the fake driver',
  createFakeHarness('ipc', 0),
)
