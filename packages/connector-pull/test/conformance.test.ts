import { runConnectorConformance } from '@kvferry/connector-api/conformance'
import { pull } from '../src/index.ts'

runConnectorConformance('connector-pull', {
  factory: pull,
  nextTurnOptions: { bidirectional: true },
})
