/**
 * `bufferDevice: host` between real processes over real NIXL: only a copy in host memory is registered, on
 * either side or on both, and the text is that of one engine.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { complete, promptOf } from '../src/completions.ts'
import { startDeployment, type Deployment } from '../src/deployment.ts'
import { expectNoBlockKept } from '../src/expectations.ts'

const blockTokens = 16
const maxTokens = 8
const lengths = [1, 15, 16, 17, 100, 500]

let folder: string
let deployment: Deployment | null = null
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'kvferry-staging-'))
})
afterEach(async () => {
  await deployment?.close()
  deployment = null
})
afterAll(() => rmSync(folder, { recursive: true }))

function configFor(role: 'producer' | 'consumer', bufferDevice: 'device' | 'host'): string {
  const file = join(folder, `${role}-${bufferDevice}.json`)
  writeFileSync(file, JSON.stringify({ connector: 'pull', role, bufferDevice }))
  return `--config=${file}`
}

test.each([
  ['host', 'host'],
  ['host', 'device'],
  ['device', 'host'],
] as const)('P’s buffer: %s, D’s: %s: the oracle’s texts, all loaded', async (ofP, ofD) => {
  deployment = await startDeployment({
    engineFlags: [
      `--block-size=${blockTokens}`,
      ...['--max-model-len=512', '--num-blocks=256', '--prefix-caching=off'],
    ],
    prefillFlags: [configFor('producer', ofP)],
    decodeFlags: [configFor('consumer', ofD)],
  })
  const { routerUrl } = deployment
  const oracle = await deployment.oracleUrl()
  const requests = lengths.map((length) => ({ prompt: promptOf(length, length), maxTokens }))
  const expected = await Promise.all(requests.map((request) => complete(oracle, request)))
  expect(expected.map(({ kind }) => kind)).toEqual(lengths.map(() => 'text'))
  // At once, and in turn through blocks that are used again.
  expect(await Promise.all(requests.map((request) => complete(routerUrl, request)))).toEqual(
    expected,
  )
  for (const [index, request] of requests.entries()) {
    expect(await complete(routerUrl, request)).toEqual(expected[index])
  }
  const blocks = lengths.reduce((sum, length) => sum + Math.ceil(length / blockTokens), 0)
  expect(await deployment.stats('decode')).toMatchObject({
    connectorCounters: { loadsDone: 2 * lengths.length, loadsFailed: 0 },
    verification: { blocksLoaded: 2 * blocks, mismatchedBlocks: 0 },
  })
  for (const name of ['prefill', 'decode'] as const) await expectNoBlockKept(deployment, name)
})
