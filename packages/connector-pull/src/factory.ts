/**
 * The connector as engines load it: name, capabilities, options, the two halves. What the first version
 * does not support is refused here, before anything is registered.
 */
import type {
  ConnectorFactory,
  ConnectorScheduler,
  ConnectorWorker,
  Rank,
  SchedulerComponents,
  WorkerComponents,
} from '@kvferry/connector-api'
import { limitExceeded, unsupported, protocolLimits } from '@kvferry/connector-api/protocol'
import { prepareSigning } from './handoff-signature.ts'
import { pullIdentity } from './identity.ts'
import { parsePullOptions } from './options.ts'
import { PullScheduler } from './scheduler.ts'
import { PullWorker } from './worker.ts'

/** The consumer READs the producer's blocks. `connector: pull` loads it. */
export const pull: ConnectorFactory = {
  ...pullIdentity,
  parseOptions: (options) => ({ ...parsePullOptions(options) }),
  createScheduler(components: SchedulerComponents): ConnectorScheduler {
    prepareSigning()
    return new PullScheduler(components, parsePullOptions(components.config.options))
  },
  /** @throws ConnectorError ERR_KV_UNSUPPORTED (PP above 1), ERR_KV_LIMIT, ERR_KV_CONFIG. */
  createWorker(components: WorkerComponents, rank: Rank): ConnectorWorker {
    const options = parsePullOptions(components.config.options)
    if (rank.ppSize !== 1) {
      throw unsupported('pipelineParallel', `pull serves one pipeline stage, not ${rank.ppSize}`)
    }
    if (rank.tpSize > protocolLimits.tpSizeMax) {
      throw limitExceeded('tpSizeMax', rank.tpSize, protocolLimits.tpSizeMax)
    }
    prepareSigning()
    return new PullWorker(components, options, rank)
  },
}
