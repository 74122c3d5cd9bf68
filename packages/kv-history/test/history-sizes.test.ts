import { ConnectorError, type KvCacheLayout } from '@kvferry/connector-api'
import { describe, expect, test } from 'vitest'
import { historySizes } from '../src/index.ts'

/** 24 layers of 8 KiB a block: the 0.5B model of the figures, 192 KiB a block. */
const caches = {
  blockCount: 1_024,
  regions: Array.from({ length: 24 }, (_, layer) => ({
    name: `layer${layer}`,
    blockSizeBytes: 8_192,
  })),
} as unknown as KvCacheLayout

describe('RT-49 the budget', () => {
  test('is 256 MiB by default, in whole blocks, and the host tier has as many as the engine', () => {
    expect(historySizes(caches)).toEqual({
      blockBytes: 196_608,
      deviceBlockCapacity: 1_365,
      hostBlockCapacity: 1_024,
    })
  })

  test('of 0 turns both tiers off', () => {
    expect(historySizes(caches, 0, 500)).toMatchObject({
      deviceBlockCapacity: 0,
      hostBlockCapacity: 0,
    })
  })

  test('below one block leaves the host tier', () => {
    expect(historySizes(caches, 196_607)).toMatchObject({
      deviceBlockCapacity: 0,
      hostBlockCapacity: 1_024,
    })
  })

  test.each([-1, 1.5, true, '1024', NaN, Infinity, 2 ** 53, null])('refuses %j', (value) => {
    let error: unknown
    try {
      historySizes(caches, value as number)
    } catch (caught) {
      error = caught
    }
    expect(ConnectorError.isInstance(error) && error).toMatchObject({
      code: 'ERR_KV_CONFIG',
      details: { field: 'gpuCacheBytes', value: JSON.stringify(value) },
    })
  })

  test.each([
    ['hostBlockCount', 1_024, 2 ** 31],
    ['gpuCacheBytes', 2 ** 53 - 1, 1_024],
  ])('refuses a capacity beyond the bound, naming %s and the remedy', (field, ...sizes) => {
    const words = new RegExp(`^${field}: .*at most 16777216 blocks`)
    expect(() => historySizes(caches, ...sizes)).toThrow(words)
  })
})
