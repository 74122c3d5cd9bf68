/** Configuration: each key valid, of the wrong type, out of range, misspelt; and the rules between keys. */
import { describe, expect, it } from 'vitest'
import fc from 'fast-check'
import { ConnectorError, type KvferryConfig } from '@kvferry/connector-api'
import { parseConfig } from '../src/index.ts'
import { knownKeys } from '../src/config/schema.ts'
import { refusal, withValue } from './support/config-cases.ts'

const accepted: [
  path: string,
  value: unknown,
  read: (config: KvferryConfig) => unknown,
  as?: unknown,
][] = [
  ['connector', 'push', (c) => c.connector],
  ['connector', 'xavier', (c) => c.connector],
  ['connector', '@acme/kv-thing', (c) => c.connector],
  ['connector', 'acme-kv', (c) => c.connector],
  ['role', 'producer', (c) => c.role],
  ['role', 'kv_producer', (c) => c.role, 'producer'],
  ['role', 'kv_consumer', (c) => c.role, 'consumer'],
  ['role', 'prefill', (c) => c.role, 'producer'],
  ['role', 'decode', (c) => c.role, 'consumer'],
  ['role', 'kv_both', (c) => c.role, 'both'],
  ['engineId', 'p-0.A_1', (c) => c.engineId],
  ['loadFailurePolicy', 'fail', (c) => c.loadFailurePolicy],
  ['bufferDevice', 'device', (c) => c.bufferDevice],
  ['bufferDevice', 'host', (c) => c.bufferDevice],
  ['sideChannel.host', '::1', (c) => c.sideChannel.host],
  ['sideChannel.host', 'localhost', (c) => c.sideChannel.host],
  ['sideChannel.port', 65_535, (c) => c.sideChannel.port],
  ['sideChannel.insecure', true, (c) => c.sideChannel.insecure],
  ['sideChannel.tls', null, (c) => c.sideChannel.tls],
  ['sideChannel.tls', { ca: 'ca.pem', cert: 'c.pem', key: 'k.pem' }, (c) => c.sideChannel.tls],
  ['peers', null, (c) => c.peers],
  ['peers', [], (c) => c.peers],
  ['peers.0.port', 1, (c) => c.peers?.[0]?.port],
  ['path', 'descriptors', (c) => c.path],
  ['path', 'ipc', (c) => c.path],
  ['ipc.ctaCount', 32, (c) => c.ipc?.ctaCount],
  ['ipc.ctaCount', null, (c) => c.ipc?.ctaCount],
  ['nixl.backends', ['UCX', 'LIBFABRIC'], (c) => c.nixl.backends],
  ['nixl.libraryPath', '/opt/nixl/libnixl_capi.so', (c) => c.nixl.libraryPath],
  ['options', { posting: 'inline' }, (c) => c.options],
]

const refused: [path: string, values: unknown[]][] = [
  [
    'connector',
    [undefined, 1, '', 'pul', 'Pull', 'xaveir', 'has space', '../evil', 'NixlConnector'],
  ],
  ['role', [null, 'prefil', 'Producer', 3]],
  ['engineId', ['', 'a b', 'a'.repeat(257), 7, null, 'é']],
  ['loadFailurePolicy', ['Recompute', true, null]],
  ['bufferDevice', ['cuda', 'Host', null]],
  ['sideChannel', [null, 'x', []]],
  [
    'sideChannel.host',
    [
      '',
      'tcp://127.0.0.1',
      '127.0.0.1:1',
      '[::1]',
      '999.1.1.1',
      5,
      '0.0.0.0',
      '10.0.0.1',
      'host.example',
    ],
  ],
  ['sideChannel.port', [-1, 65_536, 1.5, '5600', NaN, null]],
  ['sideChannel.insecure', ['true', 1, null]],
  ['sideChannel.tls', [{}, 'x', { ca: 'a', cert: 'b', key: '' }, { ca: 'a', cert: 'b', key: 1 }]],
  [
    'peers',
    ['x', {}, Array.from({ length: 257 }, () => ({ host: '127.0.0.1', port: 1, engineId: 'a' }))],
  ],
  ['peers.0', [null, 'd0', []]],
  ['peers.0.host', [undefined, 'a b', '10.0.0.1']],
  ['peers.0.port', [undefined, 0, 65_536, '1']],
  ['peers.0.engineId', [undefined, '', 'a/b']],
  ['path', ['IPC', 'fast', null]],
  ['ipc', [null, 8, []]],
  ['ipc.ctaCount', [0, -1, 1.5, 1_025, '8']],
  ['nixl', [null, 'UCX', []]],
  ['nixl.backends', [[], 'UCX', [1], [''], Array.from({ length: 17 }, () => 'UCX'), null]],
  ['nixl.libraryPath', ['libnixl.so', '', 1, '/'.repeat(4_097)]],
  ['options', [null, 'x', [], 3]],
]

const nameInMessage = (path: string): string => path.replace(/\.(\d+)/, '[$1]')

describe('accepted values', () => {
  it.each(accepted)('%s: %j', (path, value, read, as = value) => {
    expect(read(parseConfig(withValue(path, value)))).toEqual(as)
  })

  it('completes the minimum with the documented defaults', () => {
    const config = parseConfig({ connector: 'pull' })
    expect(config.engineId).toMatch(/^engine-[0-9a-f]{8}$/)
    expect(parseConfig({ connector: 'pull' }).engineId).not.toBe(config.engineId)
    expect({ ...config, engineId: 'x' }).toEqual({
      connector: 'pull',
      role: 'both',
      engineId: 'x',
      loadFailurePolicy: 'recompute',
      bufferDevice: 'device',
      sideChannel: { host: '127.0.0.1', port: 0, insecure: false, tls: null },
      peers: null,
      path: 'auto',
      nixl: { backends: ['UCX'], libraryPath: null },
      ipc: { ctaCount: null },
      options: {},
    })
  })
})

describe('refused values', () => {
  const cases = refused.flatMap(([path, values]) => values.map((value) => [path, value] as const))
  it.each(cases)('%s: %j', (path, value) => {
    const { message, details } = refusal(withValue(path, value))
    expect(details.field.startsWith(nameInMessage(path))).toBe(true)
    expect(message).toContain(details.field)
    expect(message).toContain(details.value)
    expect(message).toContain(details.remedy)
    expect(details.remedy.length).toBeGreaterThan(5)
  })

  it.each([[null], [undefined], ['pull'], [[]], [3], [() => 0]])('as a whole: %j', (input) => {
    expect(refusal(input).message).toContain('at least connector')
  })

  it('shows long and multi-line values shortened, on one line', () => {
    const { details } = refusal({ connector: `a\n${'b'.repeat(100_000)}` })
    expect(details.value.length).toBeLessThan(100)
    expect(details.value).not.toContain('\n')
  })
})

describe('unknown keys', () => {
  const sections = Object.entries(knownKeys).filter(([section]) => section !== 'sideChannel.tls')
  const known = sections.flatMap(([section, keys]) => keys.map((key) => [section, key] as const))

  it.each(known)(
    'in "%s", a misspelt "%s" is an error that names the right one',
    (section, key) => {
      const prefix = section === 'peers' ? 'peers.0.' : section === '' ? '' : `${section}.`
      const misspelt = `${key.slice(0, 1)}${key.slice(1, 2)}${key.slice(1)}`
      const { message } = refusal(withValue(`${prefix}${misspelt}`, 'x'))
      expect(message).toContain(`did you mean ${key}?`)
    },
  )

  it.each([
    ['engine_id', 'engineId'],
    ['load-failure-policy', 'loadFailurePolicy'],
    ['port', 'sideChannel.port'],
    ['libraryPath', 'nixl.libraryPath'],
  ])('%s is answered with %s', (key, own) => {
    expect(refusal(withValue(key, 1)).message).toContain(`did you mean ${own}?`)
  })

  it('lists what is known when nothing is close', () => {
    const { details } = refusal(withValue('zzzzzzzz', 1))
    expect(details.remedy).toContain('known here: connector, role, engineId')
  })

  it('does not let __proto__ through', () => {
    const input = JSON.parse('{"connector":"pull","__proto__":{"role":"producer"}}') as unknown
    expect(refusal(input).details.field).toBe('__proto__')
  })
})

describe('names from other systems', () => {
  it.each([
    ['connector', 'NixlConnector', '"pull"'],
    ['connector', 'NixlPullConnector', '"pull"'],
    ['connector', 'NixlPushConnector', '"push"'],
    ['kv_role', 'kv_producer', 'role'],
    ['kv_connector', 'NixlConnector', 'connector'],
    ['kv_port', 14_579, 'sideChannel.port'],
    ['kv_load_failure_policy', 'fail', 'loadFailurePolicy'],
    ['xavier_gpu_cache_bytes', 0, 'options.gpuCacheBytes of the connector xavier'],
    ['kv_rank', 0, 'none'],
    [
      'options.kv_lease_duration',
      30,
      'options.leaseDurationMs, with xavier options.unclaimedTicketMs',
    ],
  ])('%s: %s is answered with %s', (path, value, own) => {
    const input = withValue('options', {}) as Record<string, unknown>
    const [section, key] = path.split('.')
    if (key === undefined) input[path] = value
    else input[section as string] = { [key]: value }
    const { message, details } = refusal(input)
    expect(details.field).toBe(path)
    expect(message).toContain(`ours: ${own}`)
  })
})

it('never throws anything but ERR_KV_CONFIG, whatever it is given', () => {
  const anything = fc.oneof(
    fc.anything(),
    fc.record(
      {
        connector: fc.constant('pull'),
        peers: fc.anything(),
        sideChannel: fc.anything(),
        options: fc.anything(),
      },
      { requiredKeys: [] },
    ),
  )
  fc.assert(
    fc.property(anything, (input) => {
      try {
        parseConfig(input)
      } catch (error) {
        expect(ConnectorError.isInstance(error) && error.code).toBe('ERR_KV_CONFIG')
      }
    }),
    { numRuns: 1_000 },
  )
})
