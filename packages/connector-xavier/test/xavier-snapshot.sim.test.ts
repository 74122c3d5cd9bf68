import { runConnectorSimulation } from '@kvferry/connector-api/conformance'
import { simulationTarget } from './simulation-target.ts'

// Blocks come back, and get new owners, while copies of them are still to be made.
runConnectorSimulation('xavier-snapshot', {
  ...simulationTarget,
  options: { ...simulationTarget.options, staging: 'snapshot' },
  seedCount: 40,
  endings: ['loaded', 'computed', 'ERR_KV_TRANSFER_FAILED', 'ERR_KV_LEASE_EXPIRED'],
})
