import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { blockKeyCount, blockKeySizeBytes, chainBlockKeys, type KvIdentity } from '../src/index.ts'

interface Vector {
  readonly name: string
  readonly identity: KvIdentity
  readonly blockTokens: number
  readonly tokens: readonly number[]
  readonly keys: readonly string[]
}

/** Made by another implementation (Python's hashlib) from the definition in block-keys.ts. */
const vectors = JSON.parse(
  readFileSync(new URL('./vectors/block-keys.json', import.meta.url), 'utf8'),
) as Vector[]

const identity = { model: 'm', layout: 'l' }
const hex = (keys: Uint8Array): string[] =>
  Array.from({ length: blockKeyCount(keys) }, (_, index) =>
    Buffer.from(keys.subarray(index * blockKeySizeBytes, (index + 1) * blockKeySizeBytes)).toString(
      'hex',
    ),
  )

describe('chainBlockKeys', () => {
  test.each(vectors)('gives the golden keys: $name', (vector) => {
    expect(hex(chainBlockKeys(vector.identity, vector.tokens, vector.blockTokens))).toEqual(
      vector.keys,
    )
  })

  test('commits every key to the whole prefix, and to nothing after its block', () => {
    fc.assert(
      fc.property(
        fc.array(fc.nat(9), { minLength: 1, maxLength: 40 }),
        fc.array(fc.nat(9), { minLength: 1, maxLength: 40 }),
        fc.integer({ min: 1, max: 5 }),
        (a, b, blockTokens) => {
          const [keysA, keysB] = [a, b].map((tokens) =>
            hex(chainBlockKeys(identity, tokens, blockTokens)),
          )
          for (let block = 0; block < Math.min(keysA!.length, keysB!.length); block += 1) {
            const end = (block + 1) * blockTokens
            const isSame = `${a.slice(0, end)}` === `${b.slice(0, end)}`
            expect(keysA![block] === keysB![block]).toBe(isSame)
          }
        },
      ),
    )
  })

  test('differs in every part of the identity, and in the block size', () => {
    const tokens = [1, 2, 3, 4]
    const variants: [KvIdentity, number][] = [
      [identity, 4],
      [{ ...identity, model: 'ml' }, 4],
      [{ model: 'ml', layout: '' }, 4],
      [{ ...identity, lora: 'a' }, 4],
      [{ ...identity, salt: 'a' }, 4],
      [{ ...identity, salt: '' }, 4],
      [identity, 5],
    ]
    const keys = variants.map(
      ([id, blockTokens]) => hex(chainBlockKeys(id, tokens, blockTokens))[0],
    )
    expect(new Set(keys).size).toBe(variants.length)
    const same = chainBlockKeys({ ...identity, lora: null, salt: null }, tokens, 4)
    expect(hex(same)).toEqual(hex(chainBlockKeys(identity, tokens, 4)))
  })

  test.each([-1, 1.5, 2 ** 32, NaN])('refuses %d as a token', (token) => {
    expect(() => chainBlockKeys(identity, [0, token], 4)).toThrow(/token 1: .* is no u32/)
  })

  test.each([0, -1, 1.5])('refuses %d tokens a block', (blockTokens) => {
    expect(() => chainBlockKeys(identity, [0], blockTokens)).toThrow(RangeError)
  })
})
