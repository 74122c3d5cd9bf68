/**
 * Pull and push between engines of equal and different TP sizes, block sizes and orders of tokens and heads, as real
 * processes over real NIXL: every pair of ranks that share heads moves its part of the blocks, and the text is
 * that of one engine of one rank.
 */
import { afterEach, describe, expect, test } from 'vitest'
import { complete, promptOf } from '../src/completions.ts'
import { startDeployment, type Deployment } from '../src/deployment.ts'
import { expectNoBlockKept } from '../src/expectations.ts'

const maxTokens = 8
/** Around the block size, and over several steps of prefill. */
const lengths = [1, 15, 16, 17, 100, 500]

let deployment: Deployment
afterEach(() => deployment?.close())

async function peerOf(name: 'prefill' | 'decode'): Promise<unknown> {
  return (await fetch(`${deployment.child(name).ready.url}/kvferry/v1/peer`)).json()
}

const completeAll = (url: string, model: string) =>
  Promise.all(
    lengths.map((length) =>
      complete(url, { model, prompt: promptOf(length, length), maxTokens }, 300_000),
    ),
  )

/** Of the models that can have four ranks the smallest, with the bytes of a test. */
const eightHeads = {
  name: 'llama-3.1-8b/32',
  flags: ['--model=llama-3.1-8b', '--kv-scale=32', '--num-blocks=128'],
}
const twoHeads = { name: 'tiny', flags: ['--num-blocks=512'] }
const [tokensFirst, headsFirst] = ['LBNHC', 'LBHNC']

describe.each(['pull', 'push'])('%s', (connector) => {
  test.each([
    [1, 2, 16, 16, tokensFirst, tokensFirst, twoHeads],
    [2, 2, 16, 16, tokensFirst, tokensFirst, twoHeads],
    [4, 2, 16, 16, tokensFirst, headsFirst, eightHeads],
    [2, 1, 16, 32, tokensFirst, tokensFirst, twoHeads],
    [1, 1, 16, 16, headsFirst, tokensFirst, twoHeads],
  ])(
    'P with %i ranks and D with %i, blocks of %i and %i tokens, %s and %s: the oracle’s texts, all loaded (64)',
    async (p, d, pBlockTokens, dBlockTokens, pLayout, dLayout, model) => {
      deployment = await startDeployment({
        connector,
        // All pairs of ranks meet at once: a busy machine takes its time.
        connectorOptions: { handshakeTimeoutMs: 120_000 },
        prefillFlags: [`--tp=${p}`, `--block-size=${pBlockTokens}`, `--kv-layout=${pLayout}`],
        decodeFlags: [`--tp=${d}`, `--block-size=${dBlockTokens}`, `--kv-layout=${dLayout}`],
        engineFlags: [...model.flags, '--max-model-len=512', '--max-num-batched-tokens=256'],
      })
      expect(await peerOf('prefill')).toMatchObject({ tpSize: p, tensorParallel: 'mapped' })
      expect(await peerOf('decode')).toMatchObject({ tpSize: d, tensorParallel: 'mapped' })
      const texts = await completeAll(deployment.routerUrl, model.name)
      expect(texts.map(({ kind }) => kind)).toEqual(lengths.map(() => 'text'))
      expect(texts).toEqual(await completeAll(await deployment.oracleUrl(), model.name))
      const blocks = lengths.reduce((sum, length) => sum + Math.ceil(length / dBlockTokens), 0)
      expect(await deployment.stats('decode')).toMatchObject({
        // Each rank counts its own.
        connectorCounters: { loadsDone: d * lengths.length, loadsFailed: 0 },
        verification: { blocksLoaded: blocks, mismatchedBlocks: 0 },
      })
      for (const name of ['prefill', 'decode'] as const) await expectNoBlockKept(deployment, name)
    },
  )
})
