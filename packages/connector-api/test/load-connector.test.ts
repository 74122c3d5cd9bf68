import { expect, test } from 'vitest'
import { loadConnector } from '@kvferry/connector-api'

const factory = {
  name: 'fake',
  capabilities: {},
  parseOptions: () => ({}),
  createScheduler: () => ({}),
  createWorker: () => ({}),
}

test('the config word names our package, any other word is a package itself', async () => {
  const asked: string[] = []
  const importModule = async (name: string) => {
    asked.push(name)
    return { default: factory }
  }
  for (const word of ['pull', 'push', 'xavier', '@acme/kv-connector']) {
    expect(await loadConnector(word, importModule)).toBe(factory)
  }
  expect(asked).toEqual([
    '@kvferry/connector-pull',
    '@kvferry/connector-push',
    '@kvferry/connector-xavier',
    '@acme/kv-connector',
  ])
})

test('a package that is not installed gives the command that mends it', async () => {
  // Really missing: this package depends on no connector.
  await expect(loadConnector('@kvferry/connector-none')).rejects.toMatchObject({
    code: 'ERR_KV_CONNECTOR_NOT_INSTALLED',
    details: {
      connector: '@kvferry/connector-none',
      command: 'npm install @kvferry/connector-none',
    },
    isRetryable: false,
  })
})

test.each([
  ['psuh', 'push'],
  ['pul', 'pull'],
  ['xaviar', 'xavier'],
])(
  '%s, which nobody has installed, is not to be installed either: %s was meant',
  async (word, meant) => {
    const failure: unknown = await loadConnector(word).catch((error: unknown) => error)
    expect(failure).toMatchObject({ code: 'ERR_KV_CONFIG', details: { field: 'connector' } })
    expect((failure as Error).message).toContain(`did you mean "${meant}"?`)
    expect((failure as Error).message).not.toContain('npm install')
  },
)

test('a package that is installed is never taken for a misspelt one', async () => {
  expect(await loadConnector('pul', async () => ({ default: factory }))).toBe(factory)
})

test('a package that is broken inside is not taken for missing', async () => {
  const inner = Object.assign(new Error("Cannot find package 'left-pad' imported from pull"), {
    code: 'ERR_MODULE_NOT_FOUND',
  })
  await expect(loadConnector('pull', () => Promise.reject(inner))).rejects.toBe(inner)
})

test('a package without a factory is a mistake in the config', async () => {
  const shapes = [undefined, null, 7, {}, { ...factory, createWorker: undefined }]
  for (const shape of shapes) {
    await expect(loadConnector('lodash', async () => ({ default: shape }))).rejects.toMatchObject({
      code: 'ERR_KV_CONFIG',
      details: { field: 'connector' },
    })
  }
})
