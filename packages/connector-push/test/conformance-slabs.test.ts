import { runConnectorConformance } from '@kvferry/connector-api/conformance'
import { push } from '../src/index.ts'

// What the path can change: bytes, and how transfers, requests and processes end.
runConnectorConformance(
  'connector-push, by slabs',
  { factory: push, newsKinds: ['push.done'], path: 'slabs' },
  { groups: ['C2', 'C5', 'C6', 'C10', 'C11'] },
)
