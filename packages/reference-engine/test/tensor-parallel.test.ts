/** Engines of several ranks: the text is that of one rank, however the heads are shared out, and every rank's bytes count. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { InvariantError, asRequestId, type WorkerOutput } from '@kvferry/connector-api'
import { RankAggregator } from '../src/core/rank-aggregator.ts'
import { startEngine, type RunningEngine } from '../src/index.ts'
import {
  complete,
  inlineOptions,
  prefillOf,
  startPair,
  statsOf,
  type Pair,
} from './support/pair.ts'
import { createFabric } from './support/test-core.ts'

const settings = { blockSize: 16, maxModelLen: 512, numBlocks: 512, tp: 2 }
const maxTokens = 8
const promptOf = (length: number): string =>
  Array.from({ length }, (_, at) => String.fromCharCode(97 + ((at * 7 + length) % 26))).join('')

describe('prefill and decode with two ranks each', () => {
  let pair: Pair
  let oracle: RunningEngine
  beforeAll(async () => {
    pair = await startPair(settings)
    oracle = await startEngine({ ...inlineOptions(createFabric()), ...settings, tp: 1 })
  })
  afterAll(async () => {
    await pair.close()
    await oracle.close()
  })

  for (const length of [1, 15, 16, 100, 500]) {
    it(`say what one engine of one rank says for ${length} tokens`, async () => {
      const prompt = promptOf(length)
      const expected = (await complete(oracle, { prompt, max_tokens: maxTokens })).text
      const params = await prefillOf(pair, prompt)
      const body = { prompt, max_tokens: maxTokens, kv_transfer_params: params }
      const answer = await complete(pair.decode, body)
      expect(answer.text).toBe(expected)
      const blockCount = Math.ceil(length / settings.blockSize)
      expect(answer.kvferry).toMatchObject({
        // Both shares together: as much as one rank would have read.
        load: { outcome: 'loaded', bytes: blockCount * settings.blockSize * 1_024 },
        verification: { blocksLoaded: blockCount, mismatchedBlocks: 0 },
      })
    })
  }

  it('leave nothing behind, and tell their size', async () => {
    await expect
      .poll(async () => (await statsOf(pair.prefill)).blocks, { timeout: 5_000 })
      .toMatchObject({ owned: 0, leased: 0, quarantined: 0 })
    expect((await statsOf(pair.decode)).blocks).toMatchObject({ owned: 0, quarantined: 0 })
    const peer = await (await fetch(`${pair.prefill.url}/kvferry/v1/peer`)).json()
    expect(peer).toMatchObject({ tpSize: 2, tensorParallel: 'mapped', dispatch: 'sequential' })
  })

  it('fail a load that one rank could not read, and recompute it', async () => {
    const prompt = promptOf(90)
    const params = await prefillOf(pair, prompt)
    const peer = await (await fetch(`${pair.decode.url}/kvferry/v1/peer`)).json()
    pair.fabric.faults.failNextPosts(`d0:${(peer as { incarnation: string }).incarnation}:1`, 1)
    const body = { prompt, max_tokens: maxTokens }
    const answer = await complete(pair.decode, { ...body, kv_transfer_params: params })
    expect(answer.text).toBe((await complete(oracle, body)).text)
    expect(answer.kvferry).toMatchObject({ recomputed: true, load: { outcome: 'failed' } })
  })
})

it('one rank for two with pull: each rank reads its heads, and the text is the same', async () => {
  const fabric = createFabric()
  const shared = { ...inlineOptions(fabric), ...settings, connector: 'pull' }
  const prefill = await startEngine({ ...shared, role: 'prefill', engineId: 'p0', tp: 1 })
  const decode = await startEngine({ ...shared, role: 'decode', engineId: 'd0' })
  try {
    const body = { prompt: promptOf(60), max_tokens: maxTokens }
    const params = await prefillOf({ prefill }, body.prompt)
    const answer = await complete(decode, { ...body, kv_transfer_params: params })
    expect(answer.text).toBe((await complete(prefill, body)).text)
    expect(answer.kvferry).toMatchObject({
      // Slices of heads are cut token by token: what lies behind the prompt stays where it is.
      load: { outcome: 'loaded', bytes: 60 * 1_024 },
      verification: { blocksLoaded: 4, mismatchedBlocks: 0 },
    })
  } finally {
    await decode.close()
    await prefill.close()
  }
})

describe('aggregation over ranks', () => {
  const [a, b] = [asRequestId('a'), asRequestId('b')]
  const nothing: WorkerOutput = { sent: [], received: [], failed: [] }
  const failure = (ids: readonly number[], message: string) => ({
    requestId: a,
    blockIds: [Uint32Array.from(ids)],
    error: new Error(message) as never,
  })

  it('counts an id once all ranks have reported it, in whatever steps', () => {
    const aggregator = new RankAggregator(2)
    expect(aggregator.add([{ ...nothing, sent: [a, b] }, nothing])).toMatchObject(nothing)
    expect(aggregator.add([nothing, { ...nothing, sent: [b] }]).sent).toEqual([b])
    expect(aggregator.add([nothing, { ...nothing, sent: [a] }]).sent).toEqual([a])
    // An id may come again later: for its other direction, or for another request.
    expect(aggregator.add([{ ...nothing, received: [a] }, nothing])).toMatchObject(nothing)
  })

  it('keeps a failure until the last rank has reported, with the blocks of all', () => {
    const aggregator = new RankAggregator(2)
    const first = { ...nothing, received: [a], failed: [failure([1, 2], 'first')] }
    expect(aggregator.add([first, nothing])).toMatchObject(nothing)
    const second = { ...nothing, received: [a], failed: [failure([2, 3], 'second')] }
    const { received, failed } = aggregator.add([nothing, second])
    expect(received).toEqual([a])
    expect(failed).toMatchObject([
      { blockIds: [Uint32Array.of(1, 2, 3)], error: { message: 'first' } },
    ])
  })

  it('what all ranks can restore is the least that one can, once all have said it', () => {
    const aggregator = new RankAggregator(2)
    const answer = (blockCount: number, question = 1) => ({
      ...nothing,
      matched: [{ requestId: a, question, blockCount }],
    })
    expect(aggregator.add([answer(5), nothing]).matched).toEqual([])
    // The same request asked again: another question.
    expect(aggregator.add([answer(1, 2), answer(3)]).matched).toEqual(answer(3).matched)
    expect(aggregator.add([nothing, answer(7, 2)]).matched).toEqual(answer(1, 2).matched)
  })

  it('a second report of one rank is a bug', () => {
    const aggregator = new RankAggregator(2)
    aggregator.add([{ ...nothing, received: [a] }, nothing])
    expect(() => aggregator.add([{ ...nothing, received: [a] }, nothing])).toThrow(InvariantError)
  })
})
