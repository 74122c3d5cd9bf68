import { runConnectorConformance } from '@kvferry/connector-api/conformance'
import { push } from '../src/index.ts'

// In memory it moves as descriptors do: that the connector posts on it, and takes its ends.
runConnectorConformance(
  'connector-push, by ipc',
  { factory: push, newsKinds: ['push.done'], path: 'ipc' },
  { groups: ['C2', 'C6'] },
)
