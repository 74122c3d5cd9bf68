/** Engines that are set up differently: other block sizes, staging on one side. The text stays the same. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startEngine, type EngineOptions, type RunningEngine } from '../src/index.ts'
import { complete, inlineOptions, prefillOf, statsOf, type Pair } from './support/pair.ts'
import { createFabric } from './support/test-core.ts'

const sizes = { maxModelLen: 512 }
const host = { config: { bufferDevice: 'host' } }
const small = { blockSize: 16, numBlocks: 128 }
const large = { blockSize: 64, numBlocks: 32 }

let oracle: RunningEngine
beforeAll(async () => {
  oracle = await startEngine({ ...inlineOptions(createFabric()), ...sizes })
})
afterAll(() => oracle.close())

async function startUnlike(prefill: EngineOptions, decode: EngineOptions): Promise<Pair> {
  const fabric = createFabric()
  const shared = { ...inlineOptions(fabric), ...sizes, connector: 'pull' }
  const p = await startEngine({ ...shared, ...prefill, role: 'prefill', engineId: 'p0' })
  const d = await startEngine({ ...shared, ...decode, role: 'decode', engineId: 'd0' })
  return {
    prefill: p,
    decode: d,
    fabric,
    async close() {
      await d.close()
      await p.close()
    },
  }
}

const pairs: [string, EngineOptions, EngineOptions][] = [
  ['blocks of 16 on P and of 64 on D', small, large],
  ['blocks of 64 on P and of 16 on D', large, small],
  ['P stages through host memory', { ...small, ...host }, small],
  ['D stages through host memory, in larger blocks', small, { ...large, ...host }],
]

describe.each(pairs)('%s', (_, prefill, decode) => {
  it('says what one engine says, and leaves nothing behind', async () => {
    const pair = await startUnlike(prefill, decode)
    try {
      for (const length of [1, 16, 63, 64, 65, 400]) {
        const prompt = Array.from({ length }, (__, at) =>
          String.fromCharCode(97 + ((at * 7 + length) % 26)),
        ).join('')
        const body = { prompt, max_tokens: 4 }
        const params = await prefillOf(pair, prompt)
        const answer = await complete(pair.decode, { ...body, kv_transfer_params: params })
        expect(answer.text).toBe((await complete(oracle, body)).text)
        expect(answer.kvferry).toMatchObject({
          load: { outcome: 'loaded' },
          verification: { mismatchedBlocks: 0 },
        })
      }
      for (const engine of [pair.prefill, pair.decode]) {
        await expect
          .poll(async () => (await statsOf(engine)).blocks, { timeout: 5_000 })
          .toMatchObject({ owned: 0, leased: 0, quarantined: 0 })
      }
    } finally {
      await pair.close()
    }
  })
})
