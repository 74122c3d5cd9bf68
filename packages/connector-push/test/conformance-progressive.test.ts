import { runConnectorConformance } from '@kvferry/connector-api/conformance'
import { push } from '../src/index.ts'

runConnectorConformance('connector-push, progressive', {
  factory: push,
  newsKinds: ['push.done'],
  options: { progressive: true },
})
