/** The command: flags, file, ready line, exit codes. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { silentLogger } from '@kvferry/connector-api'
import { runCli } from '../src/run-cli.ts'
import { decodeAnswer, prefillAnswer } from './support/fake-engine.ts'
import { engine, get, post, prompt } from './support/router-fixture.ts'

interface Run {
  readonly code: Promise<number>
  readonly ready: Promise<{ event: string; url: string; pid: number }>
  readonly out: string[]
  readonly errors: string[]
  stop(): void
}

function run(...argv: string[]): Run {
  const out: string[] = []
  const errors: string[] = []
  let stop = () => {}
  let isReady: (line: string) => void
  const line = new Promise<string>((resolve) => (isReady = resolve))
  const code = runCli(argv, {
    writeOut(text) {
      out.push(text)
      isReady(text)
    },
    writeError: (text) => void errors.push(text),
    createLogger: () => silentLogger,
    onStop: (listener) => void (stop = () => listener()),
  })
  const ready = line.then((text) => JSON.parse(text) as Awaited<Run['ready']>)
  ready.catch(() => {})
  return { code, ready, out, errors, stop: () => stop() }
}

function configFile(text: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'kvferry-router-test-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const path = join(folder, 'router.yaml')
  writeFileSync(path, text)
  return path
}

describe('kvferry-router', () => {
  it('prints one ready line, serves, and ends with 0 when asked to stop', async () => {
    const p = await engine('producer', prefillAnswer)
    const d = await engine('consumer', decodeAnswer)
    const command = run('--prefill', p.url, '--decode', d.url, '--port', '0')
    const ready = await command.ready
    expect(ready).toEqual({ event: 'ready', url: ready.url, engineId: null, pid: process.pid })
    expect((await post(ready.url, prompt)).status).toBe(200)
    command.stop()
    expect(await command.code).toBe(0)
    expect(command.out).toHaveLength(1)
    await expect(get(`${ready.url}/health`)).rejects.toThrow()
  })

  it('reads a file; flags win over it', async () => {
    const p = await engine('producer', prefillAnswer, null)
    const d = await engine('consumer', decodeAnswer, null)
    const path = configFile(
      `prefill: [http://127.0.0.1:1]\ndecode: [${d.url}]\nport: 1\nconnector: pull\n`,
    )
    const flags = ['--prefill-engine-id', 'p0', '--prefill-side-channel', '10.0.0.9:5600']
    const command = run('--config', path, '--prefill', p.url, '--port', '0', ...flags)
    const { url } = await command.ready
    expect((await post(url, prompt)).status).toBe(200)
    expect(d.received[0]!.body['kv_transfer_params']).toMatchObject({ remote_host: '10.0.0.9' })
    command.stop()
    expect(await command.code).toBe(0)
  })

  it.each([
    ['no engines', [], 'prefill'],
    ['an unknown flag', ['--prefil', 'http://x'], '--prefill'],
    [
      'a bad port',
      ['--prefill', 'http://x', '--decode', 'http://y', '--port', 'x'],
      'whole number',
    ],
    ['a bad level', ['--log-level', 'loud'], 'loud'],
    ['a missing file', ['--config', '/nonexistent/router.yaml'], '/nonexistent/router.yaml'],
  ])('ends with 2 and one message: %s', async (_name, argv, part) => {
    const command = run(...argv)
    expect(await command.code).toBe(2)
    expect(command.errors.join('')).toContain(part)
    expect(command.out).toEqual([])
  })

  it('ends with 2 when the port is taken', async () => {
    const p = await engine('producer', prefillAnswer)
    const d = await engine('consumer', decodeAnswer)
    const command = run('--prefill', p.url, '--decode', d.url, '--port', String(p.port))
    expect(await command.code).toBe(2)
    expect(command.errors.join('')).toContain(`127.0.0.1:${p.port}`)
  })

  it('shows help with an example', async () => {
    const command = run('--help')
    expect(await command.code).toBe(0)
    expect(command.out.join('')).toContain('kvferry-router --prefill http://')
  })
})
