/** The command's contract with scripts: exit codes, one clear line, help with an example. */
import { describe, expect, it } from 'vitest'
import { runCli } from '../src/run-cli.ts'

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
    ['a role without connector', ['--role', 'decode'], /--connector pull/],
    ['ranks that would cut a head', ['--tp', '3'], /divisor of the 2 KV heads/],
    ['another device', ['--device', 'cuda:0'], /cuda:0/],
    ['the memory agent, which can not leave a process', ['--agent', 'memory'], /one process only/],
    ['a file that is not there', ['--config', '/nowhere/kvferry.yaml'], /readable file/],
  ]
  for (const [name, argv, message] of wrong) {
    it(`refuses ${name} with exit code 2`, async () => {
      const { code, out, err } = await run(...argv)
      expect(code).toBe(2)
      expect(err).toMatch(message)
      expect(out).toBe('')
    })
  }
})
