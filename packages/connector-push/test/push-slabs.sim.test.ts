import { runConnectorSimulation } from '@kvferry/connector-api/conformance'
import { simulationTarget } from './simulation-target.ts'

// Slabs that a dead producer left at its consumer are put in place still, unless the consumer is careful.
runConnectorSimulation('push-slabs', {
  ...simulationTarget,
  path: 'slabs',
  seedCount: 40,
  endings: ['loaded', 'computed', 'ERR_KV_TRANSFER_FAILED', 'ERR_KV_DEADLINE'],
})
