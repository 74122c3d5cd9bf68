/** `kvferry check-config`: what it refuses, and how it says so. */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeEach, describe, expect, it } from 'vitest'
import { useCli } from './support/cli.ts'

const cli = useCli()
const { run, configFile, installConnector } = cli

describe('check-config', () => {
  beforeEach(installConnector)

  it('accepts a valid file', async () => {
    const file = await configFile('connector: acme-kv\nengineId: p0')
    const { exitCode, stdout, stderr } = await run('check-config', file)
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' })
    expect(stdout).toContain('valid: connector acme-kv, role both, engine p0')
  })

  it.each([
    ['other-kv', 'run: npm install other-kv'],
    ['psuh', 'did you mean "push"?'],
  ])('refuses connector %s, which is not installed', async (connector, part) => {
    const file = await configFile(`connector: ${connector}`)
    const { exitCode, stderr } = await run('check-config', file)
    expect(exitCode).toBe(1)
    expect(stderr).toContain(part)
  })

  it.each([
    ['bufferDevice: host', 'bufferDevice is host, but acme-kv does not stage in host memory'],
    ['path: slabs', 'path is slabs, which acme-kv does not take: use auto or descriptors'],
    ['loadFailurePolicy: fail', 'loadFailurePolicy is fail, use recompute'],
  ])('refuses %s of a connector that would not start with it', async (line, part) => {
    const { exitCode, stderr } = await run(
      'check-config',
      await configFile(`connector: acme-kv\n${line}`),
    )
    expect(exitCode).toBe(1)
    expect(stderr).toContain(part)
  })

  it.each(['nowhere.yaml', '.'])('of %s, which cannot be read, is wrong usage', async (name) => {
    const path = join(cli.directory, name)
    const { exitCode, stdout, stderr } = await run('check-config', path, '--json', '-')
    expect({ exitCode, stdout }).toEqual({ exitCode: 2, stdout: '' })
    expect(stderr).toMatch(/^kvferry: check-config [^\n]+\n$/)
    expect(stderr).toContain(path)
  })

  it('refuses a file that is no YAML', async () => {
    expect(await run('check-config', await configFile('connector: ['))).toMatchObject({
      exitCode: 1,
    })
  })

  it('refuses a wrong one on stderr', async () => {
    const file = await configFile('connector: pull\nrolle: producer')
    const { exitCode, stdout, stderr } = await run('check-config', file)
    expect({ exitCode, stdout }).toEqual({ exitCode: 1, stdout: '' })
    expect(stderr).toContain('did you mean role?')
  })

  it('names what is wrong in every part at once: keys, rules between them, certificates', async () => {
    const tls = { ca: 'nowhere/ca.pem', cert: 'nowhere/p0.pem', key: 'nowhere/p0.key' }
    const file = await configFile(
      `connector: acme-kv\nrolle: both\nsideChannel: ${JSON.stringify({ tls, insecure: true })}`,
    )
    const { exitCode, stderr } = await run('check-config', file)
    expect(exitCode).toBe(1)
    const files = ['nowhere/ca.pem', 'nowhere/p0.pem', 'nowhere/p0.key']
    for (const part of ['rolle is', 'sideChannel.insecure is true', ...files]) {
      expect(stderr).toContain(part)
    }
    const json = JSON.parse((await run('check-config', file, '--json', '-')).stdout) as object
    expect(json).toMatchObject({ valid: false, errors: [{}, {}], error: { code: 'ERR_KV_CONFIG' } })
  })

  it('writes JSON, and nothing else, to stdout', async () => {
    const good = await run('check-config', await configFile('connector: acme-kv'), '--json', '-')
    expect(JSON.parse(good.stdout)).toMatchObject({
      schema: 'kvferry.check-config/1',
      valid: true,
      optionsChecked: true,
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
    const result = join(cli.directory, 'result.json')
    await run('check-config', await configFile('connector: acme-kv'), '--json', result)
    expect(JSON.parse(await readFile(result, 'utf8'))).toMatchObject({ valid: true })
    const nowhere = join(cli.directory, 'none', 'result.json')
    const failed = await run('check-config', await configFile('connector: x'), '--json', nowhere)
    expect(failed.exitCode).toBe(2)
  })
})
