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
import { unsupported } from '@kvferry/connector-api/protocol'
import { xavierIdentity } from './identity.ts'
import { assertHistoryPolicy } from './history/open-history.ts'
import { parseXavierOptions } from './options.ts'
import { XavierScheduler } from './scheduler.ts'
import { XavierWorker } from './worker.ts'

/** The consumer claims a ticket, and the producer WRITEs into the blocks that it names. `connector: xavier` loads it. */
export const xavier: ConnectorFactory = {
  ...xavierIdentity,
  parseOptions: (options) => ({ ...parseXavierOptions(options) }),
  checkConfig: (config) => assertHistoryPolicy(config, parseXavierOptions(config.options)),
  createScheduler(components: SchedulerComponents): ConnectorScheduler {
    return new XavierScheduler(components, parseXavierOptions(components.config.options))
  },
  /** @throws ConnectorError ERR_KV_UNSUPPORTED (TP or PP above 1, host staging), ERR_KV_CONFIG. */
  createWorker(components: WorkerComponents, rank: Rank): ConnectorWorker {
    const options = parseXavierOptions(components.config.options)
    if (rank.ppSize !== 1) {
      throw unsupported('pipelineParallel', `xavier serves one pipeline stage, not ${rank.ppSize}`)
    }
    if (rank.tpSize !== 1) {
      throw unsupported('tensorParallel', `xavier serves one TP rank, not ${rank.tpSize}`)
    }
    assertServes(xavierIdentity, components.config)
    return new XavierWorker(components, options, rank)
  },
}
