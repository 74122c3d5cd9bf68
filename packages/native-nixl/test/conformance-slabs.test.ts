import { runAgentConformance } from '@kvferry/connector-api/conformance'
import { byThePeer, createRealHarness } from './conformance-harness.ts'
import { describeWithNixl } from './nixl-availability.ts'

describeWithNixl(() => {
  runAgentConformance(
    'NIXL by slabs over TCP, peer in another process',
    createRealHarness({
      environment: { UCX_TLS: 'tcp' },
      unsupported: { 'remote-registration': byThePeer },
      path: 'slabs',
    }),
    { clauseTimeoutMs: 60_000 },
  )
})
