import { runConnectorConformance } from '@kvferry/connector-api/conformance'
import { push } from '../src/index.ts'

runConnectorConformance('connector-push', { factory: push, newsKinds: ['push.done'] })
