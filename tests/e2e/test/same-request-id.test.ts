/**
 * A caller that gives many requests one `X-Request-Id`: each is a request of its own to the engines and to
 * their connectors, and is answered with its own text from its own KV.
 */
import { afterEach, describe, expect, test } from 'vitest'
import { complete, promptOf, type CompletionRequest } from '../src/completions.ts'
import { startDeployment, type Deployment } from '../src/deployment.ts'
import { expectNoBlockKept } from '../src/expectations.ts'

const blockTokens = 16
/** Of several blocks each, and no two of one length. */
const requests: readonly CompletionRequest[] = Array.from({ length: 8 }, (_, index) => ({
  prompt: promptOf(100 + 37 * index, index),
  maxTokens: 8,
  stream: index % 2 === 1,
  requestId: 'one-for-all',
}))

let deployment: Deployment
afterEach(() => deployment?.close())

describe.each(['pull', 'push', 'xavier'])('%s', (connector) => {
  test('#27987, #29665: one X-Request-Id for several requests, at once and in turn: each has its own text', async () => {
    // Upstream: the id alone told requests apart, and two callers were given each other's text.
    deployment = await startDeployment({
      connector,
      engineFlags: [
        `--block-size=${blockTokens}`,
        ...['--max-model-len=512', '--num-blocks=1024', '--prefix-caching=off'],
      ],
    })
    const { routerUrl } = deployment
    const oracle = await deployment.oracleUrl()
    const expected = await Promise.all(requests.map((request) => complete(oracle, request)))
    expect(expected.every(({ kind }) => kind === 'text')).toBe(true)

    const atOnce = await Promise.all(requests.map((request) => complete(routerUrl, request)))
    expect(atOnce).toEqual(expected)
    for (const [index, request] of requests.entries()) {
      expect(await complete(routerUrl, request), `request ${index}`).toEqual(expected[index])
    }
    // The text came from KV that was moved, and from no other request's.
    const blocks = requests.reduce(
      (sum, { prompt }) => sum + Math.ceil(prompt.length / blockTokens),
      0,
    )
    const { verification } = await deployment.stats('decode')
    expect(verification).toMatchObject({ blocksLoaded: 2 * blocks, mismatchedBlocks: 0 })
    for (const name of ['prefill', 'decode'] as const) await expectNoBlockKept(deployment, name)
  })
})
