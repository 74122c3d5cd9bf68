/**
 * Push between engines of different TP sizes, as real processes over real NIXL: every rank of the prefill
 * engine writes its heads' part of the blocks, and the text is that of one engine of one rank.
 */
import { afterEach, expect, test } from 'vitest'
import { complete, promptOf } from '../src/completions.ts'
import { startDeployment, type Deployment } from '../src/deployment.ts'
import { expectNoBlockKept } from '../src/expectations.ts'

const blockTokens = 16
const maxTokens = 8
/** Around the block size, and over several steps of prefill. */
const lengths = [1, 15, 16, 17, 100, 500]

let deployment: Deployment
afterEach(() => deployment?.close())

async function peerOf(name: 'prefill' | 'decode'): Promise<unknown> {
  return (await fetch(`${deployment.child(name).ready.url}/kvferry/v1/peer`)).json()
}

test.each([
  [2, 1],
  [1, 2],
])('P with %i ranks and D with %i: the oracle’s texts, all loaded (64)', async (p, d) => {
  deployment = await startDeployment({
    connector: 'push',
    prefillFlags: [`--tp=${p}`],
    decodeFlags: [`--tp=${d}`],
    engineFlags: [
      `--block-size=${blockTokens}`,
      '--max-model-len=512',
      '--num-blocks=512',
      '--max-num-batched-tokens=256',
    ],
  })
  expect(await peerOf('prefill')).toMatchObject({ tpSize: p, tensorParallel: 'mapped' })
  expect(await peerOf('decode')).toMatchObject({ tpSize: d, tensorParallel: 'mapped' })
  const completeAll = (url: string) =>
    Promise.all(
      lengths.map((length) => complete(url, { prompt: promptOf(length, length), maxTokens })),
    )
  const texts = await completeAll(deployment.routerUrl)
  expect(texts).toEqual(await completeAll(await deployment.oracleUrl()))
  const blocks = lengths.reduce((sum, length) => sum + Math.ceil(length / blockTokens), 0)
  const { verification } = await deployment.stats('decode')
  expect(verification).toMatchObject({ blocksLoaded: blocks, mismatchedBlocks: 0 })
  for (const name of ['prefill', 'decode'] as const) await expectNoBlockKept(deployment, name)
})
