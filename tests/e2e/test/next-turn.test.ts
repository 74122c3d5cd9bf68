/**
 * A conversation's next turn between real processes over real NIXL, straight at the engines as a router would
 * ask them: P reads what D kept of the last one, then D reads what P has.
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { complete, promptOf } from '../src/completions.ts'
import { startDeployment, type Deployment } from '../src/deployment.ts'
import { askEngine, forAnother, type Params } from '../src/engine-call.ts'

const blockTokens = 16
const maxTokens = 24
let deployment: Deployment
beforeAll(async () => {
  deployment = await startDeployment({
    engineFlags: [
      `--block-size=${blockTokens}`,
      // Without a prefix cache P has nothing of the last turn: what it doesn't compute comes from D.
      ...['--max-model-len=1024', '--num-blocks=256', '--prefix-caching=off'],
    ],
    connectorOptions: { bidirectional: true, decoderBlocksTtlMs: 120_000 },
  })
})
afterAll(() => deployment?.close())

const urlOf = (name: 'prefill' | 'decode') => deployment.child(name).ready.url
const loadedAt = async (name: 'prefill' | 'decode') =>
  (await deployment.stats(name)).verification.blocksLoaded

test('turn 2 and 3: P loads what D said, D loads it all, and the texts are the oracle’s (35)', async () => {
  const oracle = await deployment.oracleUrl()
  let prompt = promptOf(150, 1)
  let ofLastTurn: Params = forAnother
  let saidTokenCount = 0
  for (let turn = 1; turn <= 3; turn++) {
    const before = await Promise.all([loadedAt('prefill'), loadedAt('decode')])
    const prefill = await askEngine(urlOf('prefill'), { prompt, maxTokens: 1 }, ofLastTurn)
    const decode = await askEngine(urlOf('decode'), { prompt, maxTokens }, prefill.params)
    const expected = { kind: 'text', text: decode.text }
    expect(await complete(oracle, { prompt, maxTokens }), `turn ${turn}`).toEqual(expected)

    const after = await Promise.all([loadedAt('prefill'), loadedAt('decode')])
    expect([after[0] - before[0], after[1] - before[1]], `blocks of turn ${turn}`).toEqual([
      Math.ceil(saidTokenCount / blockTokens),
      Math.ceil(prompt.length / blockTokens),
    ])
    expect(decode.params).toMatchObject({ do_remote_decode: true, remote_engine_id: 'decode' })
    ofLastTurn = decode.params as Params
    // The last token's KV was never computed.
    saidTokenCount = prompt.length + maxTokens - 1
    expect(ofLastTurn['remote_num_tokens']).toBe(saidTokenCount)
    prompt = `${prompt}${decode.text}${promptOf(40, 10 + turn)}`
  }
  for (const name of ['prefill', 'decode'] as const) {
    expect((await deployment.stats(name)).verification.mismatchedBlocks).toBe(0)
  }
})
