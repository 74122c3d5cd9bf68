import { runConnectorConformance } from '@kvferry/connector-api/conformance'
import { conformanceTarget } from './conformance-target.ts'

runConnectorConformance('connector-xavier', conformanceTarget)
