import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer, type AddressInfo } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { complete, promptOf } from '../src/completions.ts'
import { binOf, startDeployment, type Deployment } from '../src/deployment.ts'
import { isLoopback, listeningAddresses } from '../src/process-facts.ts'

let deployment: Deployment
beforeAll(async () => {
  deployment = await startDeployment()
})
afterAll(() => deployment?.close())

test('a default deployment listens on loopback addresses only, also after a transfer', async () => {
  const outcome = await complete(deployment.routerUrl, { prompt: promptOf(100, 1), maxTokens: 4 })
  expect(outcome.kind).toBe('text')
  const pids = (['prefill', 'decode', 'router'] as const).map((name) => deployment.child(name).pid)
  for (const pid of pids) {
    expect(listeningAddresses([pid]), `listeners of pid ${pid}`).not.toEqual([])
  }
  expect(listeningAddresses(pids).filter((address) => !isLoopback(address))).toEqual([])
})

test('the check above can fail: it sees a listener on every address', () => {
  expect(['0.0.0.0:80', '*:80', '[::]:80', '10.1.2.3:80'].filter(isLoopback)).toEqual([])
})

test('#25056, #20965, #25059, #23756, dynamo #14838 a side-channel port in use: one line that names it, exit code 2', async () => {
  // Upstream: two engines on one host had one default port; the listener's thread died, and the server looked healthy.
  const busy = createServer().listen(0, '127.0.0.1')
  await once(busy, 'listening')
  const { port } = busy.address() as AddressInfo
  const flags = ['--role', 'prefill', '--connector', 'pull', '--port', '0']
  const engine = spawn(
    process.execPath,
    [
      binOf('@kvferry/reference-engine', 'kvferry-engine'),
      ...flags,
      '--side-channel-port',
      String(port),
    ],
    { stdio: ['ignore', 'ignore', 'pipe'], timeout: 110_000 },
  )
  let stderr = ''
  engine.stderr.on('data', (chunk: Buffer) => {
    stderr += chunk.toString()
  })
  const [exitCode] = (await once(engine, 'close')) as [number]
  busy.close()
  const lines = stderr.split('\n').filter((line) => line.startsWith('kvferry-engine:'))
  expect(lines).toEqual([expect.stringContaining(`sideChannel.port is ${port}`)])
  expect(stderr).not.toContain('    at ')
  expect(exitCode).toBe(2)
})
