import { runConnectorConformance } from '@kvferry/connector-api/conformance'
import { conformanceTarget } from './conformance-target.ts'

// What a copy in between can change: bytes, and how transfers, requests and processes end.
runConnectorConformance(
  'connector-xavier, out of snapshots',
  { ...conformanceTarget, options: { staging: 'snapshot' } },
  { groups: ['C2', 'C5', 'C6', 'C10', 'C11'] },
)
