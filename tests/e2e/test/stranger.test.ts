/**
 * A stranger on the network of an engine: he reaches every port that it listens on, and none of his bytes
 * ends it or keeps it from serving. The ports of UCX belong to it: they have no authentication of their
 * own, and must at least survive.
 */
import { connect } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createByteMutator } from '@kvferry/connector-api/testing'
import { complete, promptOf } from '../src/completions.ts'
import { startDeployment, type Deployment } from '../src/deployment.ts'
import { listeningAddresses } from '../src/process-facts.ts'

let deployment: Deployment
beforeAll(async () => {
  deployment = await startDeployment({ env: { UCX_TLS: 'tcp' } })
})
afterAll(() => deployment?.close())

const portsOf = (name: 'prefill' | 'decode'): number[] => {
  const addresses = listeningAddresses([deployment.child(name).pid])
  return [...new Set(addresses.map((address) => Number(address.split(':').at(-1))))]
}

/** Sends these bytes and hangs up when the other side has, or after a moment. */
function visit(port: number, bytes: Uint8Array): Promise<void> {
  return new Promise((resolve) => {
    const socket = connect({ host: '127.0.0.1', port })
    const timer = setTimeout(() => socket.destroy(), 200)
    socket.on('error', () => {})
    socket.resume()
    socket.once('close', () => {
      clearTimeout(timer)
      resolve()
    })
    socket.end(bytes)
  })
}

async function expectServes(seed: number): Promise<void> {
  const request = { prompt: promptOf(200, seed), maxTokens: 4 }
  const expected = await complete(await deployment.oracleUrl(), request)
  expect(await complete(deployment.routerUrl, request)).toEqual(expected)
}

test('a stranger’s bytes at every port end nobody, and everybody is served as before', async () => {
  await expectServes(1)
  const texts = [
    'GET / HTTP/1.1\r\n\r\n',
    '\u0016\u0003\u0001',
    'ucx',
    '\u0000\u0000\u0000\u0004data',
  ]
  const next = createByteMutator({
    corpus: texts.map((text) => new TextEncoder().encode(text.padEnd(64, '\u0000'))),
    seed: 4,
  })
  for (const name of ['prefill', 'decode'] as const) {
    const ports = portsOf(name)
    // HTTP, side channel, and UCX.
    expect(ports.length).toBeGreaterThanOrEqual(3)
    for (const port of ports) {
      await Promise.all(Array.from({ length: 40 }, () => visit(port, next())))
    }
  }
  await expectServes(2)
  const { blocks } = await deployment.stats('decode')
  expect(blocks.owned + blocks.leased + blocks.quarantined).toBe(0)
})
