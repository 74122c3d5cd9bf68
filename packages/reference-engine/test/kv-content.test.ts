import { describe, expect, it } from 'vitest'
import { addDigests, emptyDigestSum, extendSeeds, nextToken } from '../src/core/kv-content.ts'

const encode = (text: string): Uint8Array => new TextEncoder().encode(text)

function seedsOf(tokens: Uint8Array, steps: readonly number[] = [tokens.length]): BigUint64Array {
  const seeds = new BigUint64Array(tokens.length)
  let from = 0
  for (const to of steps) {
    extendSeeds(seeds, tokens, from, to)
    from = to
  }
  return seeds
}

describe('seeds', () => {
  it('are the same however the prompt is split', () => {
    const tokens = encode('a prompt of some length')
    expect(seedsOf(tokens, [1, 2, 7, 22, tokens.length])).toEqual(seedsOf(tokens))
  })

  it('depend on the whole prefix and on nothing after it', () => {
    const left = seedsOf(encode('same prefix, one end'))
    const right = seedsOf(encode('same prefix, two ends'))
    expect(left.slice(0, 13)).toEqual(right.slice(0, 13))
    expect(left[13]).not.toBe(right[13])
    expect(seedsOf(encode('Same prefix'))[10]).not.toBe(left[10])
  })

  it('are what they were: stored results and peers of other builds depend on them', () => {
    expect([...seedsOf(encode('abc'))].map((seed) => seed.toString(16))).toMatchInlineSnapshot(`
      [
        "1b5b20bae5cfe575",
        "52b4e379f9781c05",
        "f62a73bec97778d6",
      ]
    `)
  })

  it('do not collide among all prefixes of similar prompts', () => {
    const seen = new Set<bigint>()
    for (let token = 0; token < 256; token++) {
      for (const seed of seedsOf(Uint8Array.from([token, 1, 2, 3, 4, 5, 6, 7]))) seen.add(seed)
    }
    expect(seen.size).toBe(256 * 8)
  })
})

describe('digest sums', () => {
  const digests = BigUint64Array.from([
    0xffff_ffff_ffff_ffffn,
    0x8000_0000_8000_0000n,
    0x1234_5678_9abc_def0n,
    5n,
  ])

  it('are sums modulo 2^64, in any grouping', () => {
    const sum = digests.reduce((total, digest) => total + digest, 0n) % (1n << 64n)
    const whole = addDigests(emptyDigestSum, digests, 0, 4)
    const parts = addDigests(addDigests(emptyDigestSum, digests, 2, 4), digests, 0, 2)
    expect((BigInt(whole.high) << 32n) | BigInt(whole.low)).toBe(sum)
    expect(parts).toEqual(whole)
  })

  it('change the next token, which is printable', () => {
    const tokens = Array.from({ length: 200 }, (_, low) => nextToken(7n, { low, high: 0 }))
    expect(new Set(tokens).size).toBeGreaterThan(60)
    expect(Math.min(...tokens)).toBeGreaterThanOrEqual(0x20)
    expect(Math.max(...tokens)).toBeLessThanOrEqual(0x7e)
  })
})
