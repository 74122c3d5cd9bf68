import { runConnectorConformance } from '@kvferry/connector-api/conformance'
import { pull } from '../src/index.ts'

// In memory it moves as descriptors do: that the connector posts on it, and takes its ends.
runConnectorConformance(
  'connector-pull, by ipc',
  { factory: pull, nextTurnOptions: { bidirectional: true }, path: 'ipc' },
  { groups: ['C2', 'C6'] },
)
