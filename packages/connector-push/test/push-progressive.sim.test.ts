import { runConnectorSimulation } from '@kvferry/connector-api/conformance'
import { endings, progressiveTarget } from './simulation-target.ts'

runConnectorSimulation('push-progressive', { ...progressiveTarget, seedCount: 200, endings })
