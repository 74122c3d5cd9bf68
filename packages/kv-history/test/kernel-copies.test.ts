/** When tiers take their memory: with the first block on the host, at the start beside a GPU, and all of it or none. */
import {
  ConnectorError,
  silentLogger,
  silentMetrics,
  type KvCacheLayout,
  type KvMemory,
  type KvMemoryAllocator,
} from '@kvferry/connector-api'
import {
  createMemoryFabric,
  createSeededRandom,
  createSimClock,
} from '@kvferry/connector-api/testing'
import { describe, expect, test } from 'vitest'
import { tieredHistory } from '../src/index.ts'

const blockSizeBytes = 4_096

function createProvider(memory: 'cuda' | 'host', hostAllocator?: KvMemoryAllocator) {
  const clock = createSimClock()
  const random = createSeededRandom(1)
  const { allocator, kernels } = createMemoryFabric({ clock, random })
  const allocated: KvMemory[] = []
  const counted: KvMemoryAllocator = {
    allocate(options) {
      const made = allocator.allocate(options)
      const free = made.free.bind(made)
      allocated.push(made)
      made.free = () => {
        allocated.splice(allocated.indexOf(made), 1)
        free()
      }
      return made
    },
  }
  const size = { blockSizeBytes, blockStrideBytes: blockSizeBytes, blockCount: 16 }
  const cache = allocator.allocate({ sizeBytes: 16 * blockSizeBytes })
  const caches: KvCacheLayout = {
    ...{ model: 'm', dtype: 'bfloat16', layout: 'LBNHC', layerCount: 1, kvHeadCount: 1 },
    ...{ headSize: 128, blockTokens: 16, blockCount: 16 },
    regions: [{ name: 'layer0', memory: cache, offsetBytes: 0, ...size }],
  }
  const provider = tieredHistory({
    kernels,
    device: { allocator: counted, memory },
    host: { allocator: hostAllocator ?? counted },
  })
  const ports = { clock, random, logger: silentLogger, metrics: silentMetrics }
  const open = (deviceBlocks: number, hostBlockCount: number) =>
    provider.open({
      ...{ caches, ...ports, hostBlockCount },
      gpuCacheBytes: deviceBlocks * blockSizeBytes,
    })
  return { open, allocated }
}

describe('the memory of the tiers', () => {
  test('is taken at the start beside a GPU, where locking pages would hold a step up', async () => {
    const { open, allocated } = createProvider('cuda')
    const history = open(2, 3)
    expect(allocated.map(({ sizeBytes }) => sizeBytes)).toEqual([2 * 4_096, 3 * 4_096])
    expect(history.gauges()).toMatchObject({
      deviceBytesReserved: 2 * 4_096,
      hostBytesReserved: 3 * 4_096,
    })
    await history.close()
    expect(allocated).toEqual([])
  })

  test('is taken with the first block on the host, and a tier without blocks takes none', () => {
    const onHost = createProvider('host')
    onHost.open(2, 3)
    expect(onHost.allocated).toEqual([])
    const beside = createProvider('cuda')
    beside.open(2, 0)
    expect(beside.allocated.map(({ sizeBytes }) => sizeBytes)).toEqual([2 * 4_096])
  })

  test('that can’t be had ends the start, and holds nothing', () => {
    const { open, allocated } = createProvider('cuda', {
      allocate() {
        const details = { limit: 'memory', value: 3 * 4_096, max: 0 }
        throw new ConnectorError('ERR_KV_LIMIT', 'no such memory', details)
      },
    })
    expect(() => open(2, 3)).toThrow('no such memory')
    expect(allocated).toEqual([])
  })
})
