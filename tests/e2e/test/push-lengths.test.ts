/** Push between real processes: short prompts, and prompts of which D has some or nearly all in its cache. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { complete, promptOf } from '../src/completions.ts'
import { startDeployment, type Deployment } from '../src/deployment.ts'

const blockTokens = 16
const maxTokens = 8

let deployment: Deployment
beforeAll(async () => {
  deployment = await startDeployment({
    connector: 'push',
    engineFlags: [`--block-size=${blockTokens}`, '--max-model-len=512', '--num-blocks=1024'],
  })
})
afterAll(() => deployment?.close())

/** How many blocks D loaded for it; its text is that of one engine alone. */
async function blocksLoadedFor(prompt: string): Promise<number> {
  const expected = await complete(await deployment.oracleUrl(), { prompt, maxTokens })
  expect(expected).toMatchObject({ kind: 'text' })
  const before = (await deployment.stats('decode')).verification
  expect(await complete(deployment.routerUrl, { prompt, maxTokens })).toEqual(expected)
  const after = (await deployment.stats('decode')).verification
  expect(after.mismatchedBlocks).toBe(0)
  return after.blocksLoaded - before.blocksLoaded
}

test.each([1, 15, 16, 17, 32])(
  'push: a prompt of %i tokens equals the oracle (63)',
  async (length) => {
    expect(await blocksLoadedFor(promptOf(length, length))).toBe(Math.ceil(length / blockTokens))
  },
)

test('push: what D has cached is not written again: nearly all of a prompt, and a part (63)', async () => {
  const prompt = promptOf(4 * blockTokens + 1, 101)
  expect(await blocksLoadedFor(prompt)).toBe(5)
  // At least the last token is left to be computed, and its block to be loaded.
  expect(await blocksLoadedFor(prompt)).toBe(1)
  const longer = prompt.slice(0, 2 * blockTokens) + promptOf(3 * blockTokens, 102)
  expect(await blocksLoadedFor(longer)).toBe(3)
})
