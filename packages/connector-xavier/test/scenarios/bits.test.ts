/** RT-51: what arrives is what was there, whatever the bits mean, and nothing else travels. */
import { createWorld, Engine, until } from '@kvferry/connector-api/testing'
import { expect, test } from 'vitest'
import { xavier } from '../../src/index.ts'

/** As 16-bit floats: NaN, quiet and signalling, infinities, zeros of both signs, the smallest value. */
const special = Uint16Array.of(0x7fc0, 0x7f81, 0xffff, 0x7f80, 0xff80, 0x8000, 0x0000, 0x0001)

const blockOf = ({ caches }: Engine, block: number): Uint8Array[] =>
  caches.regions.map(({ memory, offsetBytes, blockStrideBytes, blockSizeBytes }) => {
    const start = offsetBytes + block * blockStrideBytes
    return memory.bytes!.subarray(start, start + blockSizeBytes)
  })

test('RT-51: special bits arrive as they are, and as many bytes travel as the blocks have', async () => {
  const world = createWorld({ factory: xavier })
  const producer = await Engine.start(world, { engineId: 'p0' })
  const consumer = await Engine.start(world, { engineId: 'd0' })
  const params = await producer.prefill('r', 1, 32)
  const { blocks: sources } = producer.requests.get('r')!
  for (const block of sources) {
    for (const bytes of blockOf(producer, block)) {
      new Uint16Array(bytes.buffer, bytes.byteOffset, bytes.length / 2).forEach((_, at, all) => {
        all[at] = special[(at + block) % special.length]!
      })
    }
  }
  const kept = [...sources].map((block) => blockOf(producer, block).map((bytes) => bytes.slice()))
  const load = consumer.admit('r', 32, params)
  await until(world, () => load.outcome === 'loaded')
  expect([...load.blocks].map((block) => blockOf(consumer, block))).toEqual(kept)
  const sizeBytes = kept.flat().reduce((sum, { length }) => sum + length, 0)
  expect(producer.agent.counters().bytesMoved).toBe(sizeBytes)
})
