/** Configuration files: both notations, and every way in which a file can be wrong. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { loadConfigFile } from '../src/index.ts'

let directory: string
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'kvferry-config-'))
})
afterEach(() => rm(directory, { recursive: true }))

async function load(content: string | Uint8Array, name = 'kvferry.yaml') {
  const path = join(directory, name)
  await writeFile(path, content)
  return loadConfigFile(path)
}

const fails = (content: string | Uint8Array, message: RegExp) =>
  expect(load(content)).rejects.toMatchObject({
    code: 'ERR_KV_CONFIG',
    message: expect.stringMatching(message) as string,
  })

it('reads YAML', async () => {
  const config = await load(
    [
      'connector: pull   # the word',
      'role: kv_producer',
      'engineId: p0',
      'sideChannel: { host: 127.0.0.1, port: 5600 }',
      'peers: [ { host: 127.0.0.1, port: 5601, engineId: d0 } ]',
    ].join('\n'),
  )
  expect(config).toMatchObject({ role: 'producer', engineId: 'p0', sideChannel: { port: 5600 } })
  expect(config.peers).toEqual([{ host: '127.0.0.1', port: 5601, engineId: 'd0' }])
})

it('reads JSON', async () => {
  const config = await load('{ "connector": "pull",\n\t"engineId": "d0" }', 'kvferry.json')
  expect(config).toMatchObject({ connector: 'pull', engineId: 'd0' })
})

it('reads YAML 1.2: "no" is a word, not false', () =>
  expect(load('connector: pull\nengineId: no')).resolves.toMatchObject({ engineId: 'no' }))

it('says line and column of a syntax error', () =>
  fails('connector: pull\nsideChannel: { host: 127.0.0.1', /line 2, column \d+/))

it('refuses a key that occurs twice', () =>
  fails('connector: pull\nrole: both\nconnector: push', /line 3, column 1.*unique/))

it('refuses unknown tags', () => fails('connector: !evil pull', /line 1, column 12/))

it('refuses an alias bomb', () => {
  const lines = ['a0: &a0 [x, x, x, x, x, x, x, x, x]']
  for (let i = 1; i < 9; i++) {
    lines.push(`a${i}: &a${i} [${Array.from({ length: 9 }, () => `*a${i - 1}`).join(', ')}]`)
  }
  return fails(lines.join('\n'), /aliases/)
})

it('refuses a file that is too large, without reading it all', () =>
  fails(`# ${'x'.repeat(2_000_000)}\nconnector: pull`, /at most 1048576 bytes.*2000/))

it('refuses what is not UTF-8', () => fails(new Uint8Array([0x61, 0xff, 0xfe]), /UTF-8/))

it('refuses an empty file', () => fails('', /at least connector/))

it('names a missing file', () =>
  expect(loadConfigFile(join(directory, 'none.yaml'))).rejects.toMatchObject({
    code: 'ERR_KV_CONFIG',
    message: expect.stringContaining('ENOENT') as string,
  }))

it('refuses a directory', () =>
  expect(loadConfigFile(directory)).rejects.toMatchObject({ code: 'ERR_KV_CONFIG' }))
