/** The command's contract with scripts: exit codes, one clear line, help with an example. */
import { once } from 'node:events'
import { createServer, type AddressInfo } from 'node:net'
import { describe, expect, it } from 'vitest'
import { startEngine } from '../src/index.ts'
import { runCli } from '../src/run-cli.ts'
import { inlineOptions } from './support/pair.ts'
import { createFabric } from './support/test-core.ts'

async function run(...argv: string[]) {
  let out = ''
  let err = ''
  const code = await runCli(argv, {
    writeOut: (text) => {
      out += text
    },
    writeError: (text) => {
      err += text
    },
    onStop: (listener) => listener(),
  })
  return { code, out, err }
}

describe('a port that is taken', () => {
  it('is named, with exit code 2', async () => {
    const server = createServer().listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    try {
      await expect(startEngine({ ...inlineOptions(createFabric()), port })).rejects.toMatchObject({
        code: 'ERR_KV_CONFIG',
        message: `port is ${port}: choose another port, or 0 for any free one (EADDRINUSE)`,
      })
    } finally {
      server.close()
    }
  })
})

describe('kvferry-engine', () => {
  it('explains itself with an example', async () => {
    const { code, out } = await run('--help')
    expect(code).toBe(0)
    expect(out).toContain('kvferry-engine --role prefill --connector pull')
  })

  const wrong: [string, string[], RegExp][] = [
    ['an unknown flag', ['--rol', 'both'], /--rol/],
    ['a role that does not exist', ['--role', 'producer'], /prefill, decode, both/],
    ['a number that is none', ['--port', 'x'], /whole number/],
    ['an option without value', ['--option', 'posting'], /key=value/],
    ['a role without connector', ['--role', 'decode'], /use connector pull, push or xavier/],
    ['ranks that would cut a head', ['--tp', '3'], /divisor of the 2 KV heads/],
    ['another device', ['--device', 'tpu'], /cuda:N/],
    ['the memory agent, which can not leave a process', ['--agent', 'memory'], /one process only/],
    ['a file that is not there', ['--config', '/nowhere/kvferry.yaml'], /readable file/],
  ]
  for (const [name, argv, message] of wrong) {
    it(`refuses ${name} with exit code 2`, async () => {
      const { code, out, err } = await run(...argv)
      expect(code).toBe(2)
      expect(err).toMatch(message)
      expect(err).toMatch(/^kvferry-engine: [^\n]+\n$/)
      expect(out).toBe('')
    })
  }
})
