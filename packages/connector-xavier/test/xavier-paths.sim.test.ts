import { runConnectorSimulation } from '@kvferry/connector-api/conformance'
import { simulationTarget } from './simulation-target.ts'

// Slabs that a dead producer left at its consumer are put in place still, unless the consumer is careful; and
// with `auto` transfers of both paths are under way to one consumer.
for (const path of ['slabs', 'auto'] as const) {
  runConnectorSimulation(`xavier-${path}`, {
    ...simulationTarget,
    path,
    seedCount: 12,
    endings: ['loaded', 'computed'],
  })
}
