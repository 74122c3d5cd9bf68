import { runConnectorSimulation } from '@kvferry/connector-api/conformance'
import { pull } from '../src/index.ts'

runConnectorSimulation('pull', {
  factory: pull,
  options: { leaseDurationMs: 2_000, transferDeadlineMs: 500, handshakeTimeoutMs: 400 },
  boundMs: 20_000,
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
