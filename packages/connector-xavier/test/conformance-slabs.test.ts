import { runConnectorConformance } from '@kvferry/connector-api/conformance'
import { conformanceTarget } from './conformance-target.ts'

// What the path can change: bytes, and how transfers, requests and processes end.
runConnectorConformance(
  'connector-xavier, by slabs',
  { ...conformanceTarget, path: 'slabs' },
  { groups: ['C2', 'C5', 'C6', 'C10', 'C11'] },
)
