import { createSeededRandom } from '@kvferry/connector-api/testing'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { KeyTable, noEntry } from '../src/store/key-table.ts'
import { keyWordCount, keyWords } from '../src/store/key-words.ts'
import { LinkedOrder } from '../src/store/linked-order.ts'
import { noSlot, SlotPool } from '../src/store/slot-pool.ts'

/** Keys that share their first words, so that they meet in one slot and must be told apart by the rest. */
function key(number: number): Uint32Array {
  const words = new Uint32Array(keyWordCount)
  words[0] = number % 3
  words[keyWordCount - 1] = number
  return words
}

describe('KeyTable', () => {
  test('finds what was inserted and not deleted, whatever came between', () => {
    fc.assert(
      fc.property(
        fc.array(fc.nat(19), { maxLength: 200 }),
        fc.integer({ min: 1, max: 16 }),
        fc.nat(),
        (numbers, capacity, seed) => {
          const table = new KeyTable(capacity, createSeededRandom(seed))
          const model = new Map<number, number>()
          for (const number of numbers) {
            const known = model.get(number)
            if (known !== undefined) {
              table.delete(known)
              model.delete(number)
            } else if (model.size < capacity) {
              const id = table.insert(key(number), 0)
              expect([...model.values()]).not.toContain(id)
              expect(id).toBeLessThan(capacity)
              model.set(number, id)
            }
            for (let other = 0; other < 20; other += 1) {
              expect(table.find(key(other), 0)).toBe(model.get(other) ?? noEntry)
            }
            expect(table.count).toBe(model.size)
          }
          for (const [number, id] of model) expect(table.keyOf(id)).toEqual(key(number))
        },
      ),
    )
  })

  test('one of no capacity finds nothing, a full one refuses', () => {
    const random = createSeededRandom(1)
    expect(new KeyTable(0, random).find(key(1), 0)).toBe(noEntry)
    const full = new KeyTable(1, random)
    full.insert(key(1), 0)
    expect(() => full.insert(key(2), 0)).toThrow(/full/)
    expect(() => full.delete(full.insert.length)).toThrow()
  })
})

describe('LinkedOrder', () => {
  test('is the order that an array would have', () => {
    const operation = fc.record({ kind: fc.nat(3), id: fc.nat(7), other: fc.nat(7) })
    fc.assert(
      fc.property(fc.array(operation, { maxLength: 100 }), (operations) => {
        const order = new LinkedOrder(8)
        const model: number[] = []
        for (const { kind, id, other } of operations) {
          const at = model.indexOf(id)
          if (at === -1 && kind === 0) {
            order.append(id)
            model.push(id)
          } else if (at === -1 && kind === 1) {
            const after = model.indexOf(other)
            order.insertAfter(after === -1 ? noEntry : other, id)
            model.splice(after + 1, 0, id)
          } else if (at !== -1 && kind === 2) {
            order.moveToNewest(id)
            model.push(...model.splice(at, 1))
          } else if (at !== -1 && kind === 3) {
            order.remove(id)
            model.splice(at, 1)
          }
          const found: number[] = []
          for (let next = order.oldest(); next !== noEntry; next = order.newer(next))
            found.push(next)
          expect(found).toEqual(model)
          found.forEach((entry, index) =>
            expect(order.older(entry)).toBe(found[index - 1] ?? noEntry),
          )
        }
      }),
    )
  })
})

test('SlotPool gives each slot to one at a time, all of them', () => {
  fc.assert(
    fc.property(fc.array(fc.boolean(), { maxLength: 60 }), (takes) => {
      const pool = new SlotPool(5)
      const held: number[] = []
      for (const take of takes) {
        if (take) {
          const slot = pool.take()
          if (held.length === 5) expect(slot).toBe(noSlot)
          else {
            expect(held).not.toContain(slot)
            expect(slot).toBeLessThan(5)
            held.push(slot)
          }
        } else if (held.length > 0) pool.give(held.shift()!)
        expect(pool.freeCount).toBe(5 - held.length)
      }
      held.forEach((slot) => pool.give(slot))
      expect(() => pool.give(0)).toThrow(/twice/)
    }),
  )
})

test('keys at odd addresses are read like others', () => {
  const bytes = Uint8Array.from({ length: 65 }, (_, index) => index)
  const shifted = new Uint8Array(65)
  shifted.set(bytes.subarray(0, 64), 1)
  expect(keyWords(shifted.subarray(1))).toEqual(keyWords(bytes.slice(0, 64)))
})
