import { runAgentConformance } from '@kvferry/connector-api/conformance'
import { createRealHarness } from './conformance-harness.ts'
import { describeWithNixl } from './nixl-availability.ts'

describeWithNixl(() => {
  runAgentConformance(
    'NIXL over TCP, peer in another process',
    createRealHarness({ environment: { UCX_TLS: 'tcp' }, unsupported: {} }),
  )
})
