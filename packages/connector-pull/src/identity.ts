/** What pull is called and what it can do, as data. */
import type { ConnectorCapabilities } from '@kvferry/connector-api'

const capabilities: ConnectorCapabilities = {
  transferMode: 'pull',
  dispatch: 'sequential',
  isBidirectional: true,
  isProgressive: false,
  tensorParallel: 'mapped',
  groupCountMax: 1,
  supportsDifferentBlockSizes: true,
  supportsDifferentLayouts: true,
  supportsLora: false,
  supportsMultimodal: false,
  supportsParallelSampling: false,
  transferPaths: ['descriptors', 'slabs', 'ipc'],
  stagesInHostMemory: true,
}

export const pullIdentity = { name: 'pull', capabilities }
