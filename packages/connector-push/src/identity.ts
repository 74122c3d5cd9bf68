/** What push is called and what it can do, as data. */
import type { ConnectorCapabilities } from '@kvferry/connector-api'

const capabilities: ConnectorCapabilities = {
  transferMode: 'push',
  dispatch: 'concurrent',
  isBidirectional: false,
  isProgressive: true,
  tensorParallel: 'mapped',
  groupCountMax: 1,
  supportsDifferentBlockSizes: true,
  supportsDifferentLayouts: true,
  supportsLora: false,
  supportsMultimodal: false,
  supportsParallelSampling: false,
  transferPaths: ['descriptors', 'slabs', 'ipc'],
}

export const pushIdentity = { name: 'push', capabilities }
