/**
 * The agent's paths between engine processes over real NIXL: blocks of 1 KiB by slabs alone, and by whichever
 * path was measured as the cheaper one. Every block is verified, every text is the oracle's.
 */
import { afterAll, describe, expect, test } from 'vitest'
import { complete, promptOf, type CompletionRequest, type Outcome } from '../src/completions.ts'
import { startDeployment, type Deployment } from '../src/deployment.ts'

const blockTokens = 16
const engineFlags = [
  `--block-size=${blockTokens}`,
  '--kv-scale=4',
  '--max-model-len=512',
  '--num-blocks=1024',
]

const opened: Deployment[] = []
afterAll(() => Promise.all(opened.map((deployment) => deployment.close())))

/** Of the same length, so that `auto` measures one number of pieces on both paths. */
const requests: CompletionRequest[] = Array.from({ length: 12 }, (_, index) => ({
  ...{ model: 'tiny/4', prompt: promptOf(250, 100 + index) },
  ...{ maxTokens: 8, stream: index % 2 === 0 },
}))

let expected: readonly Outcome[] | null = null

/** As whoever transfers counts them: the consumer its READs, the producer its WRITEs. */
async function transfersOf(deployment: Deployment, connector: string) {
  if (connector === 'pull') {
    const { loadsDone = 0, readsBySlabs = 0 } = (await deployment.stats('decode')).connectorCounters
    return { done: loadsDone, bySlabs: readsBySlabs }
  }
  const { writesDone = 0, writesBySlabs = 0 } = (await deployment.stats('prefill'))
    .connectorCounters
  return { done: writesDone, bySlabs: writesBySlabs }
}

describe.each([
  ['pull', 'slabs'],
  ['pull', 'auto'],
  ['xavier', 'slabs'],
  ['xavier', 'auto'],
  ['push', 'slabs'],
  ['push', 'auto'],
])('%s, path: %s', (connector, path) => {
  test('every block arrives as it left, and the counters say how', async () => {
    const deployment = await startDeployment({
      ...{ connector, engineFlags },
      prefillFlags: [`--path=${path}`],
      decodeFlags: [`--path=${path}`],
    })
    opened.push(deployment)
    const oracle = expected === null ? await deployment.oracleUrl() : null
    expected ??= await Promise.all(requests.map((request) => complete(oracle!, request)))
    const outcomes = []
    for (const request of requests) outcomes.push(await complete(deployment.routerUrl, request))
    expect(expected.map(({ kind }) => kind)).toEqual(requests.map(() => 'text'))
    expect(outcomes).toEqual(expected)
    const { verification } = await deployment.stats('decode')
    expect(verification.blocksLoaded).toBe(requests.length * Math.ceil(250 / blockTokens))
    expect(verification.mismatchedBlocks).toBe(0)
    const { done, bySlabs } = await transfersOf(deployment, connector)
    expect(done).toBe(requests.length)
    if (path === 'slabs') expect(bySlabs).toBe(done)
    else {
      // Three of each are measured, then one of the paths has all.
      expect(bySlabs).toBeGreaterThanOrEqual(3)
      expect(done - bySlabs).toBeGreaterThanOrEqual(3)
    }
  })
})
