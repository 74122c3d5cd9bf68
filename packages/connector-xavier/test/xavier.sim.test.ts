import { runConnectorSimulation } from '@kvferry/connector-api/conformance'
import { endings, simulationTarget } from './simulation-target.ts'

runConnectorSimulation('xavier', { ...simulationTarget, seedCount: 500, endings })
