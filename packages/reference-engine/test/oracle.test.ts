/** One engine without connector: its text is the truth for all others, so nothing but the request may show in it. */
import { afterEach, describe, expect, it } from 'vitest'
import { startTestCore, type TestCore, type TestCoreOptions } from './support/test-core.ts'

const prompts = [
  'x',
  'abc',
  'abcd',
  'abcde',
  'abcdefgh',
  'a shared beginning, then one end',
  'a shared beginning, then the other end',
  'The quick brown fox jumps over the lazy dog. '.repeat(3),
]
const maxTokens = 11

let open: TestCore[] = []
afterEach(async () => {
  await Promise.all(open.map((core) => core.close()))
  open = []
})

async function start(options: TestCoreOptions = {}): Promise<TestCore> {
  const core = await startTestCore(options)
  open.push(core)
  return core
}

async function textsAlone(): Promise<string[]> {
  const engine = await start({ prefixCaching: 'off' })
  const texts: string[] = []
  for (const prompt of prompts) texts.push((await engine.run(prompt, maxTokens)).text)
  return texts
}

async function textsTogether(engine: TestCore): Promise<string[]> {
  const answers = await Promise.all(prompts.map((prompt) => engine.run(prompt, maxTokens)))
  return answers.map(({ text }) => text)
}

describe('the text of a request', () => {
  it('has max_tokens printable characters and differs between prompts', async () => {
    const texts = await textsAlone()
    expect(new Set(texts).size).toBe(prompts.length)
    for (const text of texts) expect(text).toMatch(/^[ -~]{11}$/)
  })

  const settings: Record<string, TestCoreOptions> = {
    'batched with others': {},
    'in chunks of 3 tokens': { maxNumBatchedTokens: 3 },
    'one sequence at a time': { maxNumSeqs: 1 },
    'with other blocks': { blockSize: 16, numBlocks: 32 },
    'without prefix caching': { prefixCaching: 'off' },
    'with additive hooks': { hooks: 'additive' },
  }
  for (const [name, options] of Object.entries(settings)) {
    it(`is the same ${name}`, async () => {
      expect(await textsTogether(await start(options))).toEqual(await textsAlone())
    })
  }

  it('is the same from the prefix cache', async () => {
    const engine = await start({ numBlocks: 256 })
    const first = await textsTogether(engine)
    const again = await Promise.all(prompts.map((prompt) => engine.run(prompt, maxTokens)))
    expect(again.map(({ text }) => text)).toEqual(first)
    expect(again.at(-1)?.end.timings.cachedTokens).toBe(132)
    expect(again[0]?.end.timings.cachedTokens).toBe(0)
    expect(first).toEqual(await textsAlone())
  })

  it('is the same after preemption', async () => {
    const engine = await start({ numBlocks: 40, prefixCaching: 'off' })
    const answers = await Promise.all(prompts.map((prompt) => engine.run(prompt, maxTokens)))
    const preemptions = answers.reduce((sum, { end }) => sum + end.timings.preemptions, 0)
    expect(preemptions).toBeGreaterThan(0)
    expect(answers.map(({ text }) => text)).toEqual(await textsAlone())
    engine.core.parts.pool.checkInvariants([])
  })

  it('is the same after preemption in the middle of a prefill', async () => {
    const engine = await start({ numBlocks: 14, maxNumBatchedTokens: 3, prefixCaching: 'off' })
    const roomy = await start()
    const long = 'forty tokens of prompt, exactly as many.'
    const [, victim] = await Promise.all([engine.run('grow', 40), engine.run(long, 5)])
    expect(victim.end.timings.preemptions).toBeGreaterThan(0)
    expect(victim.text).toBe((await roomy.run(long, 5)).text)
  })

  it('is the same at the longest sequence that fits the pool', async () => {
    const engine = await start({ numBlocks: 8, blockSize: 4 })
    const { text, end } = await engine.run('y'.repeat(31), 1)
    expect(end.finishReason).toBe('length')
    const roomy = await start({ numBlocks: 64, blockSize: 4 })
    expect(text).toBe((await roomy.run('y'.repeat(31), 1)).text)
  })
})
