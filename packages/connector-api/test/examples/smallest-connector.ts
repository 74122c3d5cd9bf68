import type { ConnectorFactory } from '@kvferry/connector-api'

/** Transfers nothing: every prompt is computed where it is decoded. Fill it in hook by hook. */
const smallest: ConnectorFactory = {
  name: 'smallest',
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
  }),
  createWorker: () => ({
    registerKvCaches: async () => new Uint8Array(),
    handlePreemptions: async () => {},
    bindConnectorMetadata() {},
    waitForSave() {},
    getTransferResults: () => ({ sent: [], received: [], failed: [] }),
    getStats: () => null,
    shutdown: async () => {},
  }),
}

export default smallest
