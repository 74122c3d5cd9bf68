import { runAgentConformance } from '@kvferry/connector-api/conformance'
import { createFakeHarness } from './conformance-harness.ts'

runAgentConformance('native-nixl by slabs, over the fake library', createFakeHarness('slabs'))
