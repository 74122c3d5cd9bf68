/**
 * The smallest connector, with hooks that a test may replace one by one: for tests of the mini engine itself,
 * which must see what a lying connector does.
 */
import type {
  ConnectorFactory,
  ConnectorScheduler,
  ConnectorWorker,
  WorkerComponents,
} from '../src/index.ts'
import smallest from './examples/smallest-connector.ts'

export interface ToyHooks {
  readonly scheduler?: Partial<ConnectorScheduler>
  readonly worker?: (components: WorkerComponents) => Partial<ConnectorWorker>
}

export function createToyConnector(hooks: ToyHooks = {}): ConnectorFactory {
  return {
    ...smallest,
    name: 'toy',
    createScheduler: (components) => ({
      ...smallest.createScheduler(components),
      ...hooks.scheduler,
    }),
    createWorker: (components, rank) => ({
      ...smallest.createWorker(components, rank),
      ...hooks.worker?.(components),
    }),
  }
}
