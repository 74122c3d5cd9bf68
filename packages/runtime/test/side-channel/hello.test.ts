/** Who is let in and whom we call, as pure decisions. */
import { describe, expect, it } from 'vitest'
import { encode } from '@msgpack/msgpack'
import {
  asEngineId,
  asIncarnation,
  ConnectorError,
  limits,
  WIRE_VERSION,
} from '@kvferry/connector-api'
import {
  encodeHello,
  judgeHello,
  refuseAddress,
  type AdmissionPolicy,
} from '../../src/side-channel/hello.ts'

const identity = { engineId: asEngineId('p0'), incarnation: asIncarnation('p0-1') }
const anyLoopback: AdmissionPolicy = { identity, peers: null, isLoopbackOnly: true }
const d0 = { host: '10.0.0.2', port: 5601, engineId: asEngineId('d0') }
const listed: AdmissionPolicy = { identity, peers: [d0], isLoopbackOnly: false }
const fields = { wireVersion: WIRE_VERSION, engineId: 'd0', incarnation: 'd0-1' }

interface Case {
  readonly body?: Uint8Array
  readonly hello?: Record<string, unknown>
  readonly policy?: AdmissionPolicy
  readonly remoteHost?: string
  readonly expected?: string
  readonly certified?: string
}

function judge({ hello, body, policy = anyLoopback, remoteHost = '127.0.0.1', ...names }: Case) {
  const idOf = (name: string | undefined) => (name === undefined ? null : asEngineId(name))
  return judgeHello(body ?? encode({ ...fields, ...hello }), policy, {
    remoteHost,
    expectedEngineId: idOf(names.expected),
    certifiedEngineId: idOf(names.certified),
  })
}

describe('a hello', () => {
  it('says who speaks, and survives the wire', () => {
    const peer = { engineId: asEngineId('d0'), incarnation: asIncarnation('d0-9') }
    expect(judge({ body: encodeHello(peer) })).toEqual(peer)
  })

  it.each<[string, Case, string, RegExp]>([
    [
      'of another wire version',
      { hello: { wireVersion: 99 } },
      'ERR_KV_PEER_INCOMPATIBLE',
      new RegExp(`99 .* ${WIRE_VERSION} here`),
    ],
    [
      'of another version and form',
      { body: encode({ wireVersion: WIRE_VERSION + 7, x: 1 }) },
      'ERR_KV_PEER_INCOMPATIBLE',
      new RegExp(`${WIRE_VERSION + 7} is spoken`),
    ],
    [
      'from another engine than expected',
      { expected: 'd1' },
      'ERR_KV_PEER_INCOMPATIBLE',
      /"d0".*"d1"/,
    ],
    [
      'with our own id',
      { hello: { engineId: 'p0' } },
      'ERR_KV_PEER_INCOMPATIBLE',
      /"p0" is on both sides/,
    ],
    ['from another machine', { remoteHost: '10.0.0.2' }, 'ERR_KV_UNAUTHORISED', /peers/],
    ['from nowhere', { remoteHost: '' }, 'ERR_KV_UNAUTHORISED', /peers/],
    [
      'from someone not listed',
      { policy: listed, hello: { engineId: 'd9' } },
      'ERR_KV_UNAUTHORISED',
      /"d9"/,
    ],
    [
      'with another name than its certificate',
      { certified: 'd1' },
      'ERR_KV_UNAUTHORISED',
      /"p0" refuses .*"d0" .*certificate of engine "d1"/,
    ],
    ['without a version', { hello: { wireVersion: null } }, 'ERR_KV_MESSAGE_INVALID', /version/],
    ['without an engine id', { hello: { engineId: '' } }, 'ERR_KV_MESSAGE_INVALID', /engine id/],
    [
      'with an id of another type',
      { hello: { engineId: 5 } },
      'ERR_KV_MESSAGE_INVALID',
      /engine id/,
    ],
    [
      'with an id for log forgers',
      { hello: { engineId: 'a\nb' } },
      'ERR_KV_MESSAGE_INVALID',
      /engine id/,
    ],
    [
      'with an id that is too long',
      { hello: { engineId: 'é'.repeat(limits.idSizeBytesMax / 2 + 1) } },
      'ERR_KV_MESSAGE_INVALID',
      /engine id/,
    ],
    [
      'without an incarnation',
      { hello: { incarnation: [] } },
      'ERR_KV_MESSAGE_INVALID',
      /incarnation/,
    ],
    [
      'that is too long',
      { hello: { padding: 'x'.repeat(2_000) } },
      'ERR_KV_MESSAGE_INVALID',
      /2\d\d\d bytes/,
    ],
    ['that is no map', { body: encode(5) }, 'ERR_KV_MESSAGE_INVALID', /map/],
    ['that is no msgpack', { body: Uint8Array.of(0xc1) }, 'ERR_KV_MESSAGE_INVALID', /hello/],
    ['that is empty', { body: new Uint8Array(0) }, 'ERR_KV_MESSAGE_INVALID', /hello/],
  ])('%s is refused', (_, given, code, message) => {
    const verdict = judge(given)
    expect(ConnectorError.isInstance(verdict)).toBe(true)
    expect(verdict).toMatchObject({ code, message: expect.stringMatching(message) as string })
  })

  it('with the name of its certificate is welcome', () => {
    expect(judge({ certified: 'd0' })).toMatchObject({ engineId: 'd0' })
  })

  it('from a listed engine is welcome from any address', () => {
    expect(judge({ policy: listed, remoteHost: '10.0.0.2' })).toMatchObject({ engineId: 'd0' })
  })
})

describe('an address', () => {
  const at = (host: string, port = 5601, engineId = 'd0') => ({
    host,
    port,
    engineId: asEngineId(engineId),
  })

  it('on this machine may be called when no peers are listed', () => {
    for (const host of ['127.0.0.1', '::1', 'localhost']) {
      expect(refuseAddress(at(host), anyLoopback)).toBeNull()
    }
  })

  it.each(['10.0.0.2', 'metadata.internal', '0.0.0.0', '169.254.169.254'])(
    'elsewhere (%s) may not',
    (host) => expect(refuseAddress(at(host), anyLoopback)?.code).toBe('ERR_KV_UNAUTHORISED'),
  )

  it('must be the listed one, by name and place', () => {
    expect(refuseAddress(at('10.0.0.2'), listed)).toBeNull()
    expect(refuseAddress(at('10.0.0.3'), listed)?.message).toContain('configured at 10.0.0.2:5601')
    expect(refuseAddress(at('10.0.0.2', 1), listed)?.code).toBe('ERR_KV_UNAUTHORISED')
    expect(refuseAddress(at('10.0.0.2', 5601, 'd9'), listed)?.code).toBe('ERR_KV_UNAUTHORISED')
  })

  it('may name loopback in another way than the list', () => {
    const peers = [{ ...d0, host: 'localhost' }]
    expect(refuseAddress(at('127.0.0.1'), { ...listed, peers })).toBeNull()
  })

  it('of this engine itself is refused', () => {
    expect(refuseAddress(at('127.0.0.1', 1, 'p0'), anyLoopback)?.code).toBe(
      'ERR_KV_PEER_INCOMPATIBLE',
    )
  })
})
