/** `kvferry`: what it prints where, and its exit codes. */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { asEngineId } from '@kvferry/connector-api'
import { runCli } from '../src/cli/program.ts'
import { createTestNet, type TestNet } from './support/side-channels.ts'

let net: TestNet
let directory: string
beforeEach(async () => {
  net = createTestNet()
  directory = await mkdtemp(join(tmpdir(), 'kvferry-cli-'))
})
afterEach(async () => {
  await net.close()
  await rm(directory, { recursive: true })
})

async function run(...argv: string[]) {
  let stdout = ''
  let stderr = ''
  const exitCode = await runCli(argv, {
    stdout: (text) => (stdout += text),
    stderr: (text) => (stderr += text),
  })
  return { exitCode, stdout, stderr }
}

async function configFile(content: string): Promise<string> {
  const path = join(directory, 'kvferry.yaml')
  await writeFile(path, content)
  return path
}

describe('usage', () => {
  it('shows help with an example, for itself and for each command', async () => {
    for (const argv of [['--help'], ['check-config', '--help'], ['ping', '--help']]) {
      const { exitCode, stdout, stderr } = await run(...argv)
      expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' })
      expect(stdout).toContain('Example:')
    }
  })

  it.each([
    [[]],
    [['certs']],
    [['check-config']],
    [['check-config', 'a', 'b']],
    [['check-config', 'a', '--nope']],
    [['ping']],
    [['ping', 'nowhere']],
    [['ping', '127.0.0.1:0']],
    [['ping', '127.0.0.1:99999']],
    [['ping', '::1:5600']],
    [['ping', '127.0.0.1:1', '--timeout', 'soon']],
    [['ping', '10.0.0.1:5600']],
  ])('%j is wrong usage: exit code 2 and one line', async (argv) => {
    const { exitCode, stdout, stderr } = await run(...argv)
    expect({ exitCode, stdout }).toEqual({ exitCode: 2, stdout: '' })
    expect(stderr).toMatch(/^[^\n]+\n$/)
  })
})

describe('check-config', () => {
  it('accepts a valid file', async () => {
    const file = await configFile('connector: acme-kv\nengineId: p0')
    const { exitCode, stdout, stderr } = await run('check-config', file)
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' })
    expect(stdout).toContain('valid: connector acme-kv, role both, engine p0')
    expect(stdout).toContain('options were not checked: connector "acme-kv" is not installed')
  })

  it('refuses a wrong one on stderr', async () => {
    const file = await configFile('connector: pull\nrolle: producer')
    const { exitCode, stdout, stderr } = await run('check-config', file)
    expect({ exitCode, stdout }).toEqual({ exitCode: 1, stdout: '' })
    expect(stderr).toContain('did you mean role?')
  })

  it('writes JSON, and nothing else, to stdout', async () => {
    const good = await run('check-config', await configFile('connector: acme-kv'), '--json', '-')
    expect(JSON.parse(good.stdout)).toMatchObject({
      schema: 'kvferry.check-config/1',
      valid: true,
      optionsChecked: false,
      config: { connector: 'acme-kv', role: 'both' },
    })
    const bad = await run('check-config', await configFile('role: both'), '--json', '-')
    expect(bad.exitCode).toBe(1)
    expect(JSON.parse(bad.stdout)).toMatchObject({
      valid: false,
      error: { code: 'ERR_KV_CONFIG', details: { field: 'connector' } },
    })
  })

  it('writes JSON to a file', async () => {
    const result = join(directory, 'result.json')
    await run('check-config', await configFile('connector: acme-kv'), '--json', result)
    expect(JSON.parse(await readFile(result, 'utf8'))).toMatchObject({ valid: true })
    const nowhere = join(directory, 'none', 'result.json')
    const failed = await run('check-config', await configFile('connector: x'), '--json', nowhere)
    expect(failed.exitCode).toBe(2)
  })
})

describe('ping', () => {
  it('shows who answers and how fast', async () => {
    const p = await net.engine('p0')
    const target = `127.0.0.1:${p.channel.address.port}`
    const end = p.nextEnd()
    const { exitCode, stdout, stderr } = await run('ping', target, '--engine-id', 'p0')
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' })
    expect(stdout).toMatch(/engine p0 \(incarnation p0-1, .* in \d+\.\d\d ms/)
    await end
    const json = JSON.parse((await run('ping', target, '--json', '-')).stdout) as object
    expect(json).toMatchObject({ schema: 'kvferry.ping/1', admitted: true, engineId: 'p0' })
    expect(json).toMatchObject({ roundTripMs: expect.any(Number) as number })
  })

  it('fails when another engine answers', async () => {
    const p = await net.engine('p0')
    const target = `127.0.0.1:${p.channel.address.port}`
    const { exitCode, stderr } = await run('ping', target, '--engine-id', 'p1')
    expect(exitCode).toBe(1)
    expect(stderr).toContain('ERR_KV_PEER_INCOMPATIBLE')
    expect(stderr).toContain('"p0" answered where "p1" was expected')
  })

  it('fails when the engine doesn’t know us, and shows its reason', async () => {
    const peers = [{ host: '127.0.0.1', port: 1, engineId: asEngineId('d0') }]
    const p = await net.engine('p0', { peers })
    const { exitCode, stderr } = await run('ping', `127.0.0.1:${p.channel.address.port}`)
    expect(exitCode).toBe(1)
    expect(stderr).toContain('ERR_KV_UNAUTHORISED')
  })

  it('fails when nobody listens', async () => {
    const server = createServer().listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    server.close()
    await once(server, 'close')
    const { exitCode, stdout } = await run('ping', `127.0.0.1:${port}`, '--json', '-')
    expect(exitCode).toBe(1)
    expect(JSON.parse(stdout)).toMatchObject({
      admitted: false,
      error: { code: 'ERR_KV_PEER_UNAVAILABLE' },
    })
  })

  it('fails when whoever listens speaks something else, or nothing', async () => {
    const server = createServer((socket) => {
      socket.on('error', () => {})
      if (isTalking) socket.write('HTTP/1.1 400 Bad Request\r\n\r\n')
    })
    let isTalking = true
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const target = `127.0.0.1:${(server.address() as AddressInfo).port}`
    const talking = await run('ping', target)
    expect(talking.stderr).toContain('ERR_KV_PEER_INCOMPATIBLE')
    isTalking = false
    const silent = await run('ping', target, '--timeout', '50')
    expect(silent.stderr).toContain('ERR_KV_DEADLINE')
    server.close()
  })
})
