import { runConnectorSimulation } from '@kvferry/connector-api/conformance'
import { simulationTarget } from './simulation-target.ts'

runConnectorSimulation('pull', {
  ...simulationTarget,
  seedCount: 500,
  endings: [
    'loaded',
    'computed',
    'ERR_KV_TRANSFER_FAILED',
    'ERR_KV_PEER_UNAVAILABLE',
    'ERR_KV_LEASE_EXPIRED',
    'ERR_KV_WRONG_EPOCH',
    'ERR_KV_DEADLINE',
  ],
})
