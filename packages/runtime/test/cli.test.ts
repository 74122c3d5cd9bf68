/** `kvferry`: what it prints where, and its exit codes. */
import { execFileSync } from 'node:child_process'
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { copyFile, readdir, readFile, stat, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { asEngineId } from '@kvferry/connector-api'
import { useCli } from './support/cli.ts'
import { createTestNet, type TestNet } from './support/side-channels.ts'

const cli = useCli()
const { run, configFile, installConnector } = cli
let net: TestNet
beforeEach(() => {
  net = createTestNet()
})
afterEach(() => net.close())

describe('usage', () => {
  it('shows help with an example, for itself and for each command', async () => {
    for (const argv of [
      ['--help'],
      ...['check-config', 'ping', 'certs'].map((name) => [name, '--help']),
    ]) {
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
    expect(stderr).toMatch(/^kvferry: [^\n]+\n$/)
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
    expect(talking.stderr).toMatch(/HTTP server.*ping the side channel, not the HTTP port/)
    isTalking = false
    const silent = await run('ping', target, '--timeout', '50')
    expect(silent.stderr).toContain('ERR_KV_DEADLINE')
    server.close()
  })
})

describe('certs', () => {
  const certs = (...argv: string[]) => run('certs', '--dir', join(cli.directory, 'tls'), ...argv)
  const read = (name: string) => readFile(join(cli.directory, 'tls', name))

  it('makes a CA and a certificate per engine, for their owner alone, and says what to configure', async () => {
    const { exitCode, stdout, stderr } = await certs('--engine', 'p0', 'd0', '--days', '30')
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' })
    const files = (await readdir(join(cli.directory, 'tls'))).toSorted()
    expect(files).toEqual(['ca.key', 'ca.pem', 'd0.key', 'd0.pem', 'p0.key', 'p0.pem'])
    for (const file of files) {
      expect((await stat(join(cli.directory, 'tls', file))).mode & 0o777).toBe(0o600)
    }
    const [ca, p0] = [
      new X509Certificate(await read('ca.pem')),
      new X509Certificate(await read('p0.pem')),
    ]
    expect(p0.subjectAltName).toBe('URI:kvferry:engine:p0')
    expect(p0.verify(ca.publicKey) && p0.checkIssued(ca)).toBe(true)
    expect(p0.ca).toBe(false)
    expect(p0.checkPrivateKey(createPrivateKey(await read('p0.key')))).toBe(true)
    const days = (Date.parse(p0.validTo) - Date.now()) / 86_400_000
    expect(days).toBeGreaterThan(29.9)
    expect(days).toBeLessThan(30.1)
    expect(stdout).toContain(`cert: "${join(cli.directory, 'tls', 'p0.pem')}"`)
    expect(stdout).toMatch(/peers:\n {2}- \{ engineId: d0,/)
  })

  it('passes openssl’s own check', async () => {
    await certs('--engine', 'p0')
    const argv = ['verify', '-x509_strict', '-purpose', 'sslclient', '-CAfile']
    const tls = join(cli.directory, 'tls')
    const out = execFileSync('openssl', [...argv, join(tls, 'ca.pem'), join(tls, 'p0.pem')], {
      encoding: 'utf8',
    })
    expect(out).toContain('OK')
  })

  it('overwrites nothing unasked, uses the CA again, and with --force only the engine’s', async () => {
    await certs('--engine', 'p0')
    const [ca, p0] = [await read('ca.pem'), await read('p0.pem')]
    const again = await certs('--engine', 'd0', 'p0')
    expect(again.exitCode).toBe(2)
    expect(again.stderr).toMatch(/^kvferry: [^\n]*p0\.pem[^\n]*--force[^\n]*\n$/)
    expect(await read('p0.pem')).toEqual(p0)
    expect((await certs('--engine', 'd0')).exitCode).toBe(0)
    expect(await read('ca.pem')).toEqual(ca)
    expect((await certs('--engine', 'p0', '--force')).exitCode).toBe(0)
    expect(await read('p0.pem')).not.toEqual(p0)
    expect(await read('ca.pem')).toEqual(ca)
    const d0 = new X509Certificate(await read('d0.pem'))
    expect(d0.verify(new X509Certificate(ca).publicKey)).toBe(true)
  })

  it('refuses names and days that make no certificate', async () => {
    for (const argv of [
      ['--engine', '../p0'],
      ['--engine', 'ca'],
      ['--engine', 'p0', 'p0'],
      ['--engine', 'x'.repeat(65)],
      ['--engine', 'p0', '--days', '0'],
      ['--engine', 'p0', '--days', 'many'],
      [],
    ]) {
      const { exitCode, stderr } = await certs(...argv)
      expect(exitCode).toBe(2)
      expect(stderr).toMatch(/^kvferry: [^\n]+\n$/)
    }
    await expect(readdir(join(cli.directory, 'tls'))).rejects.toThrow('ENOENT')
  })

  it('makes the directories above, and ends where none can be made', async () => {
    const deep = join(cli.directory, 'a', 'b', 'tls')
    expect((await run('certs', '--dir', deep, '--engine', 'p0')).exitCode).toBe(0)
    expect((await stat(deep)).mode & 0o777).toBe(0o700)
    for (const path of ['/proc/foo', '/proc/foo/bar']) {
      const { exitCode, stderr } = await run('certs', '--dir', path, '--engine', 'p0')
      expect(exitCode).toBe(1)
      expect(stderr).toMatch(/^kvferry certs: \/proc\/foo[^\n]*ENOENT[^\n]*\n$/)
    }
  })

  it('fails with one line where it can’t write', async () => {
    await writeFile(join(cli.directory, 'tls'), 'a file')
    const { exitCode, stderr } = await certs('--engine', 'p0')
    expect(exitCode).toBe(1)
    expect(stderr).toMatch(/^kvferry certs: [^\n]+\n$/)
  })

  it('makes what ping and check-config can use', async () => {
    await certs('--engine', 'p0', 'probe')
    const tls = (name: string) => ({
      ca: join(cli.directory, 'tls', 'ca.pem'),
      cert: join(cli.directory, 'tls', `${name}.pem`),
      key: join(cli.directory, 'tls', `${name}.key`),
    })
    const config = { host: '127.0.0.1', port: 0, insecure: false, tls: tls('p0') }
    const p = await net.engine('p0', { config })
    const target = `127.0.0.1:${p.channel.address.port}`
    const flags = Object.entries(tls('probe')).flatMap(([name, path]) => [`--${name}`, path])
    const good = await run('ping', target, ...flags, '--engine-id', 'p0')
    expect(good).toMatchObject({ exitCode: 0, stderr: '' })
    const plain = await run('ping', target)
    expect(plain.exitCode).toBe(1)
    expect(plain.stderr).toMatch(/speaks mutual TLS .*name --ca, --cert and --key\n$/)
    expect((await run('ping', target, '--ca', 'x')).exitCode).toBe(2)
    expect((await run('ping', target, '--ca', 'x', '--cert', 'y', '--key', 'z')).exitCode).toBe(1)

    await installConnector()
    await copyFile(tls('p0').ca, join(cli.directory, 'own.pem'))
    const yaml = (name: string) =>
      `connector: acme-kv\nengineId: p0\nsideChannel: { tls: ${JSON.stringify(tls(name))} }`
    expect((await run('check-config', await configFile(yaml('p0')))).exitCode).toBe(0)
    const wrong = await run('check-config', await configFile(yaml('probe')))
    expect(wrong.exitCode).toBe(1)
    expect(wrong.stderr).toContain('use the certificate of engine "p0": this one names "probe"')
    // Its own CA is not the one that the file names.
    const elsewhere = join(cli.directory, 'elsewhere')
    await run('certs', '--dir', elsewhere, '--engine', 'p0')
    await writeFile(tls('p0').ca, await readFile(join(elsewhere, 'ca.pem')))
    const strange = await run('check-config', await configFile(yaml('p0')))
    expect(strange.exitCode).toBe(1)
    expect(strange.stderr).toContain('that the CA of sideChannel.tls.ca issued')
    const both = await Promise.all([read('ca.pem'), readFile(join(cli.directory, 'own.pem'))])
    await writeFile(tls('p0').ca, Buffer.concat(both))
    expect((await run('check-config', await configFile(yaml('p0')))).exitCode).toBe(0)
  })
})
