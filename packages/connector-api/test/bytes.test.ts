/** Writers share the memory that they write into, one after the other: none may show in another's message. */
import { expect, test } from 'vitest'
import { ByteReader, ByteWriter } from '../src/protocol/index.ts'

const sizeMax = 1_000_000
const filled = (size: number, value: number): Uint8Array => new Uint8Array(size).fill(value)

test('a message stays as it is, whatever is written after it', () => {
  const first = new ByteWriter(sizeMax).fixed(filled(100, 1)).finish()
  const second = new ByteWriter(sizeMax).fixed(filled(100, 2)).finish()
  expect(first).toEqual(filled(100, 1))
  expect(second).toEqual(filled(100, 2))
  expect(first.buffer).not.toBe(second.buffer)
  expect(first.buffer.byteLength).toBe(100)
})

test('a message has only what was written into it, however long the one before was', () => {
  new ByteWriter(sizeMax).fixed(filled(70_000, 7)).finish()
  new ByteWriter(sizeMax).fixed(filled(2_000, 7)).finish()
  expect(new ByteWriter(sizeMax).u8(1).string('é').finish()).toEqual(
    Uint8Array.of(1, 2, 0, 0xc3, 0xa9),
  )
})

test('two that are at work at once do not mix, also when one outgrows its memory', () => {
  const one = new ByteWriter(sizeMax).u32(1)
  const other = new ByteWriter(sizeMax).u32(2).fixed(filled(5_000, 2))
  one.u32(1)
  other.u32(2)
  expect(one.finish()).toEqual(Uint8Array.of(1, 0, 0, 0, 1, 0, 0, 0))
  const reader = new ByteReader(other.finish(), 'test')
  expect(reader.u32()).toBe(2)
  expect(reader.fixed(5_000)).toEqual(filled(5_000, 2))
  expect(reader.u32()).toBe(2)
  reader.end()
})

test('a writer that has finished takes nothing more: its memory is another’s by then', () => {
  const writer = new ByteWriter(sizeMax).u8(1)
  writer.finish()
  const other = new ByteWriter(sizeMax).u8(2)
  expect(() => writer.u8(3)).toThrow(RangeError)
  expect(other.finish()).toEqual(Uint8Array.of(2))
})
