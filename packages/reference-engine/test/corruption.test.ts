/** Bytes decide the text: a flipped one is counted, logged, and ends the request before a token follows from it. */
import { afterEach, describe, expect, it } from 'vitest'
import { silentLogger, type Logger } from '@kvferry/connector-api'
import { ScriptedConnector } from './support/scripted-connector.ts'
import { slotOffset, startTestCore, type TestCore } from './support/test-core.ts'

let engine: TestCore | null = null
afterEach(async () => {
  await engine?.close()
  engine = null
})

const corrupted = { finishReason: 'error', error: { code: 'ERR_KV_TRANSFER_FAILED' } }
const prompt = 'forty tokens of prompt, exactly as many.'

function flip(core: TestCore, requestId: string, position: number): void {
  const { bytes } = core.core.parts.caches.memory
  if (bytes === null) throw new Error('not host memory')
  const offset = slotOffset(core.core, requestId, position)
  bytes[offset] = (bytes[offset] as number) ^ 1
}

async function cleanText(maxTokens: number): Promise<string> {
  const clean = await startTestCore()
  const { text } = await clean.run(prompt, maxTokens)
  await clean.close()
  return text
}

describe('a flipped byte', () => {
  // Position 17 is in the turn of the second token, position 3 only in that of the 65th, if ever.
  const moments: [string, number, number][] = [
    ['by the token whose turn its block is', 17, 1],
    ['by the last token at the latest', 3, 11],
  ]
  for (const [moment, position, firstWrongToken] of moments) {
    it(`of the prompt, while the request decodes, is found ${moment}`, async () => {
      const errors: string[] = []
      const logger: Logger = { ...silentLogger, error: (message) => errors.push(message) }
      engine = await startTestCore({ logger })
      const answer = engine.run(prompt, 12, 'victim')
      await engine.untilToken('victim')
      flip(engine, 'victim', position)
      const { text, end } = await answer
      const clean = await cleanText(12)
      expect(end).toMatchObject(corrupted)
      expect(text).toBe(clean.slice(0, firstWrongToken))
      expect(end.timings.verification.mismatchedBlocks).toBe(1)
      const stats = await engine.core.stats()
      expect(stats.verification.mismatchedBlocks).toBe(1)
      expect(errors).toEqual(['KV bytes differ from what the tokens demand'])
    })
  }

  it('in the prefix cache is found by the next request that hits it, and served no further', async () => {
    engine = await startTestCore()
    const answer = engine.run(prompt, 3, 'first')
    await engine.untilToken('first')
    const [block] = engine.core.parts.table.get('first' as never)?.blocks ?? []
    await answer
    const { memory, layout } = engine.core.parts.caches
    const at = (block as number) * (layout.regions[0]?.blockStrideBytes ?? 0)
    if (memory.bytes === null) throw new Error('not host memory')
    memory.bytes[at] = (memory.bytes[at] as number) ^ 0x80
    const hit = await engine.run(prompt, 3)
    expect(hit.end.timings.cachedTokens).toBe(36)
    expect(hit.end.timings.verification.mismatchedBlocks).toBe(1)
    expect(hit.end).toMatchObject(corrupted)
    expect(hit.text).toBe('')
    const next = await engine.run(prompt, 3)
    expect(next.end.timings.cachedTokens).toBe(0)
    expect(next.text).toBe(await cleanText(3))
  })

  for (const position of [0, 20, prompt.length - 1]) {
    it(`at token ${position} of a load is found before the first token`, async () => {
      const connector = new ScriptedConnector()
      engine = await startTestCore({ factory: connector.factory })
      const { core } = engine
      connector.onLoad = (load) => {
        void connector.writeBytes(load, prompt).then(() => {
          const { bytes } = core.parts.caches.memory
          const offset = slotOffset(core, load.requestId, position)
          if (bytes !== null) bytes[offset] = (bytes[offset] as number) ^ 1
          connector.receive(load.requestId)
        })
      }
      const { text, end } = await engine.run(prompt, 1)
      expect(end).toMatchObject(corrupted)
      expect(text).toBe('')
      expect(end.timings.verification).toEqual({
        blocksLoaded: 10,
        blocksVerified: 10,
        mismatchedBlocks: 1,
      })
    })
  }
})
