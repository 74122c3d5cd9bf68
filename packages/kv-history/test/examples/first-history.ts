import { chainBlockKeys, silentLogger, silentMetrics } from '@kvferry/connector-api'
import {
  createMemoryFabric,
  createSeededRandom,
  createSimClock,
} from '@kvferry/connector-api/testing'
import { tieredHistory } from '@kvferry/kv-history'

const clock = createSimClock()
const random = createSeededRandom(1)
const { allocator, kernels } = createMemoryFabric({ clock, random })
const cache = allocator.allocate({ sizeBytes: 16 * 4_096 }) // an engine's KV cache
const block = { blockSizeBytes: 4_096, blockStrideBytes: 4_096, blockCount: 16 }
const caches = {
  ...{ model: 'm', dtype: 'bfloat16', layout: 'LBNHC', layerCount: 1, kvHeadCount: 1 },
  ...{ headSize: 128, blockTokens: 16, blockCount: 16 },
  regions: [{ name: 'layer0', memory: cache, offsetBytes: 0, ...block }],
}
const provider = tieredHistory({
  kernels,
  device: { allocator, memory: 'host' }, // no GPU here
  host: { allocator },
})
const ports = { clock, random, logger: silentLogger, metrics: silentMetrics }
const history = provider.open({ caches, gpuCacheBytes: 2 * 4_096, ...ports })

const tokens = Uint32Array.from({ length: 60 }, (_, index) => index)
const keys = chainBlockKeys({ model: 'm', layout: 'LBNHC' }, tokens, 16) // the last block is partial
cache.bytes!.fill(7, 0, 4 * 4_096) // a prompt's KV, in blocks 0 to 3
await clock.wait(history.offer({ keys, blockIds: Uint32Array.of(0, 1, 2, 3) })!, 1_000)
cache.bytes!.fill(0) // the engine needs its blocks for others

const { lease, blockCount } = history.reserve(keys, 0)!
const restored = history.restore(lease, Uint32Array.of(8, 9, 10, 11))
console.log(blockCount, 'blocks,', await clock.wait(restored, 1_000))
console.log('byte 0 of block 11 is', cache.bytes![11 * 4_096]) // 7
