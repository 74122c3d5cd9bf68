import { runAgentConformance } from '@kvferry/connector-api/conformance'
import { createRealHarness } from './conformance-harness.ts'
import { describeWithNixl } from './nixl-availability.ts'

describeWithNixl(() => {
  runAgentConformance(
    'NIXL over shared memory, peer in another process',
    createRealHarness({
      environment: { UCX_TLS: 'sm,self,tcp' },
      unsupported: { 'peer-stall': 'CMA copies one-sidedly, also to and from a stopped process' },
    }),
  )
})
