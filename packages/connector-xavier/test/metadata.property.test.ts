import { ConnectorError } from '@kvferry/connector-api'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import {
  decodeMetadata,
  encodeMetadata,
  entrySizeBytes,
  type MetadataEntry,
} from '../src/metadata.ts'
import { decodeRankMetadata, encodeRankMetadata } from '../src/rank-metadata.ts'

const u32 = fc.integer({ min: 0, max: 0xffff_ffff })
const u16 = fc.integer({ min: 0, max: 65_535 })
const id = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 20 })
const digest = fc.uint8Array({ minLength: 32, maxLength: 32 })
const blockIds = fc.uint32Array({ maxLength: 20 })
const keys = fc
  .array(digest, { maxLength: 3 })
  .map((all) => Uint8Array.from(all.flatMap((key) => [...key])))
const prompt = fc.record({ tokenCount: u32, digest })

const entry = fc.oneof(
  fc.record({
    kind: fc.constantFrom('withdraw', 'undelivered', 'release', 'abort', 'forget'),
    requestId: id,
  }),
  fc.record({ kind: fc.constant('ask'), requestId: id, question: u32, keys }),
  fc.record({ kind: fc.constant('restore'), requestId: id, blockIds }),
  fc.record({ kind: fc.constant('announce'), requestId: id, ticket: id }),
  fc.record({ kind: fc.constant('register'), requestId: id, prompt, blockIds, keys }),
  fc.record({
    ...{ kind: fc.constant('offer'), requestId: id, transferId: id, prompt },
    producer: fc.record({ engineId: id, host: id, port: u16, tpSize: u16 }),
  }),
  fc.record({
    ...{ kind: fc.constant('load'), requestId: id, tokenEnd: u32 },
    localBlockIds: fc.array(blockIds, { maxLength: 3 }),
  }),
) as unknown as fc.Arbitrary<MetadataEntry>

test('step metadata: what is encoded is decoded, within its announced size', () => {
  fc.assert(
    fc.property(fc.array(entry, { maxLength: 8 }), (entries) => {
      const bytes = encodeMetadata(entries)
      expect(decodeMetadata(bytes)).toEqual(entries)
      const sizeBytes = entries.reduce((sum, one) => sum + entrySizeBytes(one), 5)
      expect(bytes.length).toBeLessThanOrEqual(sizeBytes)
    }),
  )
})

test('step metadata that was cut, prolonged or changed is refused or read, never thrown otherwise', () => {
  fc.assert(
    fc.property(fc.array(entry, { minLength: 1, maxLength: 4 }), fc.nat(), (entries, seed) => {
      const bytes = encodeMetadata(entries)
      const mutants = [bytes.slice(0, seed % bytes.length), Uint8Array.of(...bytes, 0)]
      const flipped = bytes.slice()
      flipped[seed % bytes.length]! ^= 1 << (seed % 8)
      for (const mutant of [...mutants, flipped]) {
        try {
          decodeMetadata(mutant)
          expect(mutant).toBe(flipped)
        } catch (error) {
          expect(ConnectorError.isInstance(error) && error.code).toBe('ERR_KV_MESSAGE_INVALID')
        }
      }
    }),
  )
})

test('handshake metadata: where the side channel listens, and no other version', () => {
  const ticketKey = new Uint8Array(32).fill(7)
  for (const keepsHistory of [true, false]) {
    const place = { host: '127.0.0.1', port: 5_600, keepsHistory, ticketKey }
    expect(decodeRankMetadata(encodeRankMetadata(place))).toEqual(place)
  }
  const place = { host: '127.0.0.1', port: 5_600, keepsHistory: false, ticketKey }
  const bytes = encodeRankMetadata(place)
  expect(() => decodeRankMetadata(Uint8Array.of(9, ...bytes.slice(1)))).toThrow('version 9')
})
