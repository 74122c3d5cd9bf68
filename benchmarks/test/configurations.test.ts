/** From `--connectors`, `--option`, `--posting` and `--hooks` to the configurations of a run. */
import { describe, expect, it } from 'vitest'
import { parseConnectorList } from '../src/commands/connector-list.ts'
import { resolveConfigurations, type ConfigurationRequest } from '../src/compare/configuration.ts'
import { fakeConnector } from './fake-programs.ts'

const request = (
  connectors: string,
  more: Partial<ConfigurationRequest> = {},
): ConfigurationRequest => ({
  connectors: parseConnectorList(connectors),
  posting: 'both',
  options: {},
  hooks: ['after-launch'],
  ...more,
})

const labels = async (connectors: string, more: Partial<ConfigurationRequest> = {}) =>
  (await resolveConfigurations(request(connectors, more))).map(({ label }) => label)

describe('--connectors', () => {
  it('takes options for each entry, values as JSON where they are', () => {
    expect(parseConnectorList('pull, push:progressive=true:slabs=3,pull:posting=inline')).toEqual([
      { connector: 'pull', options: {} },
      { connector: 'push', options: { progressive: true, slabs: 3 } },
      { connector: 'pull', options: { posting: 'inline' } },
    ])
  })

  it('leaves colons of URLs and names of packages alone', () => {
    expect(parseConnectorList('file:///x/y.mjs:depth=2,@a/b:c=d')).toEqual([
      { connector: 'file:///x/y.mjs', options: { depth: 2 } },
      { connector: '@a/b', options: { c: 'd' } },
    ])
  })

  it.each([
    ['pull,', /an entry is empty/],
    ['pull:posting', /write options as NAME:key=value/],
    ['pull:posting=inline:posting=background', /posting is given twice/],
  ])('refuses %s', (text, message) => {
    expect(() => parseConnectorList(text)).toThrow(message)
  })
})

describe('configurations', () => {
  it('run both posting modes of a connector that was named alone', async () => {
    expect(await labels('pull')).toEqual(['pull', 'pull-inline'])
    expect(await labels('pull', { posting: 'inline' })).toEqual(['pull-inline'])
  })

  it('are exactly those that were spelt out, each with its own options', async () => {
    expect(await labels('pull,pull:posting=inline')).toEqual(['pull', 'pull-inline'])
    expect(await labels(`pull:posting=inline,${fakeConnector}:depth=2`)).toEqual([
      'pull-inline',
      'fake-depth=2',
    ])
  })

  it('name what differs from the defaults only', async () => {
    const [configuration] = await resolveConfigurations(request('pull:posting=background'))
    expect(configuration).toMatchObject({ label: 'pull', options: {}, hooks: 'after-launch' })
  })

  it('run under each placement of the hooks, labelled where it is not the default', async () => {
    const hooks = ['after-launch', 'additive'] as const
    expect(await labels('pull:posting=inline', { hooks })).toEqual([
      'pull-inline',
      'pull-inline-additive',
    ])
  })

  it('refuse a shared option that one of several connectors does not know, and say how to give it', async () => {
    const set = `pull:posting=background,${fakeConnector}`
    await expect(labels(set, { options: { depth: 2 } })).rejects.toThrow(
      /^pull: .*depth.*--connectors NAME:depth=2/,
    )
    await expect(labels(`${fakeConnector}:depth=2,pull`)).resolves.toContain('fake-depth=2')
  })

  it('refuse two of the same', async () => {
    await expect(labels('pull,pull')).rejects.toThrow(/"pull" is there twice/)
  })
})
