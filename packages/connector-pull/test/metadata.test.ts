import { expect, test } from 'vitest'
import { decodeMetadata, encodeMetadata } from '../src/metadata.ts'

test('a step without news has bytes of its own, whatever became of the last one’s', () => {
  encodeMetadata([]).fill(0xff)
  expect(decodeMetadata(encodeMetadata([]))).toEqual([])
})
