import { expect, test } from 'vitest'
import { assert, assertNever, InvariantError, limits } from '@kvferry/connector-api'
import { fabricLimits } from '../src/testing/memory-fabric/fabric-limits.ts'
import { encodeMetadata } from '../src/testing/memory-fabric/wire.ts'

test('every limit is a positive number; counts and sizes are whole', () => {
  for (const [name, value] of Object.entries({ ...limits, ...fabricLimits })) {
    expect(value, name).toBeGreaterThan(0)
    if (/Count|Bytes|InFlight|PerPost|Backlog/.test(name)) {
      expect(Number.isSafeInteger(value), name).toBe(true)
    }
  }
})

test('what travels fits into what carries it', () => {
  expect(limits.agentMetadataSizeBytesMax).toBeLessThan(limits.frameSizeBytesMax)
  expect(limits.handoffSizeBytesMax).toBeLessThanOrEqual(limits.frameSizeBytesMax)
  expect(limits.idSizeBytesMax).toBeLessThan(limits.notificationSizeBytesMax)
  // A full table of block ids, 4 bytes each, leaves room in a frame for the words around it.
  expect(limits.blocksPerPostMax * 4).toBeLessThan(limits.frameSizeBytesMax)
  expect(limits.regionCountMax * limits.blocksPerPostMax).toBeGreaterThanOrEqual(
    limits.descriptorsPerPostMax,
  )
})

test('an agent of the fabric with all its regions still fits its metadata limit', () => {
  const region = { address: 2 ** 46, lengthBytes: 1 }
  const regions = Array.from({ length: fabricLimits.regionCountMax }, () => region)
  const name = 'x'.repeat(limits.idSizeBytesMax)
  const { length } = encodeMetadata({ instance: 1, name, regions })
  expect(length).toBeLessThanOrEqual(limits.agentMetadataSizeBytesMax)
})

test('assertions stay on, and say what was broken', () => {
  expect(() => assert(true, 'fine')).not.toThrow()
  expect(() => assert(false, 'two owners')).toThrow(InvariantError)
  expect(() => assertNever('x' as never)).toThrow('unreachable value: "x"')
})
