import fc from 'fast-check'
import { expect, test } from 'vitest'
import { ConnectorError, limits } from '@kvferry/connector-api'
import { createSeededRandom } from '@kvferry/connector-api/testing'
import { piecesOf } from '../src/testing/memory-fabric/block-table.ts'
import type { BlockTable } from '../src/testing/memory-fabric/block-table.ts'
import { HandleTable } from '../src/testing/memory-fabric/handle-table.ts'
import { planTransfer } from '../src/testing/memory-fabric/transfer-plan.ts'
import {
  decodeMetadata,
  decodeTable,
  encodeMetadata,
  encodeTable,
} from '../src/testing/memory-fabric/wire.ts'

const tableHandle = 1 as never

const tableOf = (
  blockSizeBytes: number,
  regionCount: number,
  firstAddress: number,
): BlockTable => ({
  peer: null,
  regions: Array.from({ length: regionCount }, (_, index) => ({
    address: firstAddress + index * 1_000_000,
    blockSizeBytes,
    blockStrideBytes: blockSizeBytes,
    blockCount: 64,
  })),
  blockCount: 64,
  regionHandles: [],
  openTransferCount: 0,
})

const idsArbitrary = fc.uniqueArray(fc.nat(63), { minLength: 1, maxLength: 40 })

test('a plan maps every byte as the streams do, in as few descriptors as neighbours allow', () => {
  fc.assert(
    fc.property(idsArbitrary, idsArbitrary, fc.integer({ min: 1, max: 3 }), (a, b, regionCount) => {
      const count = Math.min(a.length, b.length)
      const localIds = a.slice(0, count)
      const remoteIds = b.slice(0, count)
      const local = tableOf(8, regionCount, 0)
      const remote = tableOf(8, regionCount, 50_000_000)
      const side = (blockIds: number[]) => ({
        table: tableHandle,
        blockIds: Uint32Array.from(blockIds),
      })
      const plan = planTransfer(
        piecesOf(local, side(localIds), 'local'),
        piecesOf(remote, side(remoteIds), 'remote'),
      )
      const mapped = new Map<number, number>()
      plan.lengths.forEach((length, index) => {
        for (let byte = 0; byte < length; byte += 1) {
          mapped.set(plan.localAddresses[index]! + byte, plan.remoteAddresses[index]! + byte)
        }
      })
      const wrong: number[] = []
      let runs = 0
      for (let region = 0; region < regionCount; region += 1) {
        localIds.forEach((id, index) => {
          const isRun =
            index > 0 &&
            localIds[index - 1] === id - 1 &&
            remoteIds[index - 1]! + 1 === remoteIds[index]
          if (!isRun) runs += 1
          for (let byte = 0; byte < 8; byte += 1) {
            const from = region * 1_000_000 + id * 8 + byte
            const to = 50_000_000 + region * 1_000_000 + remoteIds[index]! * 8 + byte
            if (mapped.get(from) !== to) wrong.push(from)
          }
        })
      }
      expect(wrong).toEqual([])
      expect(mapped.size).toBe(count * 8 * regionCount)
      expect(plan.descriptorsAfterMerge).toBe(runs)
      expect(plan.descriptorsBeforeMerge).toBe(count * regionCount)
    }),
    { numRuns: 100 },
  )
})

test('neighbours in two regions are not merged: they may be registered apart', () => {
  const all = Uint32Array.from({ length: 64 }, (_, index) => index)
  const blocks = { table: tableHandle, blockIds: all }
  const whole = {
    table: tableHandle,
    regions: Uint32Array.of(0),
    offsets: Float64Array.of(0),
    lengths: Float64Array.of(1_024),
  }
  // Region 1 begins where region 0 ends.
  const touching: BlockTable = {
    ...tableOf(8, 1, 0),
    regions: [0, 512].map((address) => ({ ...tableOf(8, 1, address).regions[0]! })),
  }
  const single = tableOf(16, 1, 50_000_000)
  const split = piecesOf(touching, blocks, 'local')
  const one = piecesOf(single, whole, 'remote')
  expect(planTransfer(split, one).descriptorsAfterMerge).toBe(2)
  expect(planTransfer(one, split).descriptorsAfterMerge).toBe(2)
})

const natArbitrary = fc.integer({ min: 0, max: 2 ** 40 })

test('metadata and tables survive the wire', () => {
  const regionArbitrary = fc.record({ address: natArbitrary, lengthBytes: natArbitrary })
  const metadataArbitrary = fc.record({
    instance: natArbitrary,
    name: fc.string({ unit: 'grapheme', maxLength: 30 }),
    regions: fc.array(regionArbitrary, { maxLength: 20 }),
  })
  fc.assert(
    fc.property(metadataArbitrary, (metadata) => {
      expect(decodeMetadata(encodeMetadata(metadata))).toEqual(metadata)
    }),
  )
  const placedArbitrary = fc.record({
    address: natArbitrary,
    blockSizeBytes: fc.integer({ min: 1, max: 4_096 }),
    blockStrideBytes: fc.integer({ min: 4_096, max: 10_000 }),
    blockCount: fc.constant(7),
  })
  fc.assert(
    fc.property(fc.array(placedArbitrary, { minLength: 1, maxLength: 20 }), (regions) => {
      const table = { instance: 3, regions }
      expect(decodeTable(encodeTable(table))).toEqual(table)
    }),
  )
})

test('hostile bytes are refused with a typed error and nothing else', () => {
  const good = encodeTable({
    instance: 1,
    regions: [{ address: 2 ** 46, blockSizeBytes: 64, blockStrideBytes: 64, blockCount: 4 }],
  })
  fc.assert(
    fc.property(fc.nat(good.length - 1), fc.integer({ min: 1, max: 255 }), (at, change) => {
      const bytes = good.slice()
      bytes[at]! ^= change
      for (const decode of [decodeTable, decodeMetadata]) {
        try {
          decode(bytes)
        } catch (error) {
          expect(ConnectorError.isInstance(error) && error.code).toBe('ERR_KV_MESSAGE_INVALID')
        }
      }
    }),
    { numRuns: 300 },
  )
})

test('impossible tables are refused: wrapping, empty, too many, unequal', () => {
  const region = { address: 4_096, blockSizeBytes: 64, blockStrideBytes: 64, blockCount: 4 }
  const bad = [
    [],
    [{ ...region, address: 2 ** 53 - 100 }],
    [{ ...region, blockStrideBytes: 2 ** 51, blockCount: 2 ** 10 }],
    [{ ...region, blockCount: 0 }],
    [{ ...region, blockSizeBytes: 0 }],
    [{ ...region, blockStrideBytes: 63 }],
    [region, { ...region, blockCount: 5 }],
    Array.from({ length: limits.regionCountMax + 1 }, () => region),
  ]
  for (const regions of bad) {
    expect(() => decodeTable(encodeTable({ instance: 1, regions }))).toThrow(
      expect.objectContaining({ code: 'ERR_KV_MESSAGE_INVALID' }),
    )
  }
})

test('handles of what was removed, of other tables and of nothing lead nowhere', () => {
  const create = (seed: number) =>
    new HandleTable<string, number>({ limit: 'test', max: 4, random: createSeededRandom(seed) })
  const table = create(1)
  const a = table.add('a')
  const b = table.add('b')
  table.remove(a)
  table.remove(a)
  const c = table.add('c')
  expect(table.find(a)).toBeUndefined()
  expect(table.isStale(a)).toBe(true)
  expect(table.isStale(c)).toBe(false)
  expect(table.get(b, 'entry')).toBe('b')
  expect([...table.values()].sort()).toEqual(['b', 'c'])
  expect(() => table.get(a, 'entry')).toThrow(RangeError)
  const foreign = create(2).add('foreign')
  for (const value of [foreign, -1, NaN, 0.5, 2 ** 53 - 1, Infinity]) {
    expect(table.find(value)).toBeUndefined()
    expect(table.isStale(value)).toBe(false)
  }
  table.add('d')
  table.add('e')
  expect(() => table.add('f')).toThrow(expect.objectContaining({ code: 'ERR_KV_LIMIT' }))
  expect(table.size).toBe(4)
})
