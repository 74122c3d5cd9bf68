import { runConnectorConformance } from '@kvferry/connector-api/conformance'
import { pull } from '../src/index.ts'

// What the path can change: bytes, and how transfers, requests and processes end.
runConnectorConformance(
  'connector-pull, by slabs',
  { factory: pull, nextTurnOptions: { bidirectional: true }, path: 'slabs' },
  { groups: ['C2', 'C5', 'C6', 'C10', 'C11'] },
)
