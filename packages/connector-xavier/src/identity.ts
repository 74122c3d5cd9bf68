/** What xavier is called and what it can do, as data. */
import type { ConnectorCapabilities } from '@kvferry/connector-api'

const capabilities: ConnectorCapabilities = {
  transferMode: 'ticket',
  dispatch: 'sequential',
  isBidirectional: false,
  isProgressive: false,
  tensorParallel: 'single',
  groupCountMax: 1,
  supportsDifferentBlockSizes: true,
  supportsDifferentLayouts: true,
  supportsLora: false,
  supportsMultimodal: false,
  supportsParallelSampling: false,
  keepsHistory: true,
  transferPaths: ['descriptors', 'slabs', 'ipc'],
}

export const xavierIdentity = { name: 'xavier', capabilities }
