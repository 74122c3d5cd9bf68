/**
 * The connector as engines load it: name, capabilities, options, the two halves. What this version does not
 * support is refused here, before anything is registered.
 */
import {
  assertServes,
  type ConnectorFactory,
  type ConnectorScheduler,
  type ConnectorWorker,
  type Rank,
  type SchedulerComponents,
  type WorkerComponents,
} from '@kvferry/connector-api'
import { limitExceeded, protocolLimits, unsupported } from '@kvferry/connector-api/protocol'
import { pushIdentity } from './identity.ts'
import { parsePushOptions } from './options.ts'
import { PushScheduler } from './scheduler.ts'
import { PushWorker } from './worker.ts'

/** The producer WRITEs into the consumer's blocks. `connector: push` loads it. */
export const push: ConnectorFactory = {
  ...pushIdentity,
  parseOptions: (options) => ({ ...parsePushOptions(options) }),
  createScheduler(components: SchedulerComponents): ConnectorScheduler {
    return new PushScheduler(components, parsePushOptions(components.config.options))
  },
  /** @throws ConnectorError ERR_KV_UNSUPPORTED (PP above 1, host staging), ERR_KV_LIMIT, ERR_KV_CONFIG. */
  createWorker(components: WorkerComponents, rank: Rank): ConnectorWorker {
    const options = parsePushOptions(components.config.options)
    if (rank.ppSize !== 1) {
      throw unsupported('pipelineParallel', `push serves one pipeline stage, not ${rank.ppSize}`)
    }
    // Not staged: its WRITEs leave when the forward ends, and a copy to the host would have to end first.
    assertServes(pushIdentity, components.config)
    const max = protocolLimits.tpSizeMax
    if (rank.tpSize > max) throw limitExceeded('tpSizeMax', rank.tpSize, max)
    return new PushWorker(components, options, rank)
  },
}
