/**
 * A connector that transfers nothing, with hooks that a test may replace one by one: for tests of the mini
 * engine itself, which must see what a lying connector does.
 */
import type {
  ConnectorFactory,
  ConnectorScheduler,
  ConnectorWorker,
  WorkerComponents,
} from '../src/index.ts'

export interface ToyHooks {
  readonly scheduler?: Partial<ConnectorScheduler>
  readonly worker?: (components: WorkerComponents) => Partial<ConnectorWorker>
}

export function createToyConnector(hooks: ToyHooks = {}): ConnectorFactory {
  return {
    name: 'toy',
    capabilities: {
      transferMode: 'pull',
      dispatch: 'sequential',
      isBidirectional: false,
      isProgressive: false,
      tensorParallel: 'single',
      groupCountMax: 1,
      supportsDifferentBlockSizes: false,
      supportsLora: false,
      supportsMultimodal: false,
      supportsParallelSampling: false,
    },
    parseOptions: (options) => options,
    createScheduler: () => ({
      setHandshakeMetadata() {},
      onNewRequest() {},
      getNumNewMatchedTokens: () => ({ tokens: 0, isAsync: false }),
      updateStateAfterAlloc() {},
      buildConnectorMeta: () => new Uint8Array(),
      updateConnectorOutput() {},
      requestFinished: () => ({ delayFree: false, kvTransferParams: null }),
      hasPendingPushWork: () => false,
      hasPendingBlockFrees: () => false,
      shutdown: async () => {},
      ...hooks.scheduler,
    }),
    createWorker: (components) => ({
      registerKvCaches: async () => new Uint8Array(),
      handlePreemptions: async () => {},
      bindConnectorMetadata() {},
      waitForSave() {},
      getTransferResults: () => ({ sent: [], received: [], failed: [] }),
      getStats: () => null,
      shutdown: async () => {},
      ...hooks.worker?.(components),
    }),
  }
}
