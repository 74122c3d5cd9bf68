import { runConnectorConformance } from '@kvferry/connector-api/conformance'
import { conformanceTarget } from './conformance-target.ts'

// In memory it moves as descriptors do: that the connector posts on it, and takes its ends.
runConnectorConformance(
  'connector-xavier, by ipc',
  { ...conformanceTarget, path: 'ipc' },
  { groups: ['C2', 'C6'] },
)
