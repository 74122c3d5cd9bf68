/** Rules between the keys of a configuration, and that all problems are reported at once. */
import { describe, expect, it } from 'vitest'
import { parseConfig } from '../src/index.ts'
import { refusal, withValue } from './support/config-cases.ts'

const tlsFiles = { ca: 'ca.pem', cert: 'c.pem', key: 'k.pem' }

describe('rules between keys', () => {
  it('binds a non-loopback address only when insecure is said', () => {
    const { details } = refusal(withValue('sideChannel.host', '10.0.0.1'))
    expect(details.remedy).toContain('insecure: true')
    const peers = [{ host: '10.0.0.2', port: 1, engineId: 'd0' }]
    for (const way of [{ insecure: true }, { tls: tlsFiles }]) {
      const sideChannel = { host: '10.0.0.1', ...way }
      const config = parseConfig({ connector: 'pull', peers, sideChannel })
      expect(config.sideChannel.host).toBe('10.0.0.1')
    }
  })

  it('wants the peers listed where they come from other machines', () => {
    const sideChannel = { host: '10.0.0.1', insecure: true }
    expect(refusal({ connector: 'pull', sideChannel }).details.field).toBe('peers')
  })

  it('wants an address that peers can call, whatever is insecure', () => {
    for (const host of ['0.0.0.0', '::', '0:0:0:0:0:0:0:0']) {
      const { details } = refusal(withValue('sideChannel', { host, insecure: true }))
      expect(details.remedy).toContain('under which peers reach this engine')
    }
  })

  it('wants certificates or insecurity, not both', () => {
    const { details } = refusal(withValue('sideChannel', { tls: tlsFiles, insecure: true }))
    expect(details.field).toBe('sideChannel.insecure')
  })

  it('wants all three files of TLS', () => {
    for (const part of ['ca', 'cert', 'key'] as const) {
      const others = Object.entries(tlsFiles).filter(([key]) => key !== part)
      const tls = Object.fromEntries(others)
      const { details } = refusal(withValue('sideChannel', { tls }))
      expect(details.field).toBe(`sideChannel.tls.${part}`)
    }
    const { message } = refusal(withValue('sideChannel', { tls: { ...tlsFiles, kay: 'x' } }))
    expect(message).toContain('did you mean key?')
  })

  it('wants peers to be others, each once', () => {
    const peer = (engineId: string) => ({ host: '127.0.0.1', port: 1, engineId })
    const input = { connector: 'pull', engineId: 'p0', peers: [peer('d0'), peer('d0'), peer('p0')] }
    const { message } = refusal(input)
    expect(message).toContain('peers[1].engineId')
    expect(message).toContain('peers[2].engineId')
    expect(message).not.toContain('peers[0]')
  })

  it('reports everything at once, also across fields', () => {
    const { message } = refusal({
      rolle: 'producer',
      path: 'fast',
      sideChannel: { host: '10.0.0.1', port: 'x' },
      nixl: { backends: 1 },
      peers: [{ host: '127.0.0.1', port: 1, engineId: 'd0' }, { engineId: 'd0' }],
    })
    for (const field of [
      'connector',
      'rolle',
      'path',
      'sideChannel.port',
      'nixl.backends',
      'peers[1].host',
    ]) {
      expect(message).toContain(`${field} is `)
    }
  })

  it('bounds the list of problems', () => {
    const keys = Array.from({ length: 500 }, (_, index) => [`unknown-key-${index}`, 1])
    const { message } = refusal(Object.fromEntries([['connector', 'pull'], ...keys]))
    expect(message).toContain('500 problems')
    expect(message).toContain('and 480 more')
    expect(message.length).toBeLessThan(10_000)
  })
})
