/** Whom a certificate names: read strictly, so that no other name can pass for an engine's. */
import { describe, expect, it } from 'vitest'
import { engineUri, readEngineName } from '../src/tls/engine-name.ts'
import { judgeCertificate } from '../src/tls/judge-certificate.ts'
import { asEngineId, ConnectorError } from '@kvferry/connector-api'

describe('the engine in a certificate', () => {
  it('is its one URI of our kind, among any other names', () => {
    const text = 'DNS:host.example, URI:spiffe://x/y, URI:kvferry:engine:p0, IP Address:10.0.0.1'
    expect(readEngineName(text)).toEqual({ kind: 'engine', engineId: 'p0' })
    expect(readEngineName(`URI:${engineUri('a.B_1-2')}`)).toMatchObject({ engineId: 'a.B_1-2' })
  })

  it.each([
    ['no names', undefined],
    ['no URI', 'DNS:p0'],
    ['a DNS name like it', 'DNS:kvferry:engine:p0'],
    ['two engines', 'URI:kvferry:engine:p0, URI:kvferry:engine:d0'],
    ['twice the same', 'URI:kvferry:engine:p0, URI:kvferry:engine:p0'],
    ['an empty id', 'URI:kvferry:engine:'],
    ['an impossible id', 'URI:kvferry:engine:a/b'],
    ['other case', 'URI:KVFERRY:ENGINE:p0'],
    ['one inside a quoted name', 'DNS:"x, URI:kvferry:engine:p0"'],
    ['one inside a quoted name, cut off behind', 'DNS:"x, URI:kvferry:engine:p0, y"'],
    ['one behind an escaped quote', String.raw`DNS:"x\", URI:kvferry:engine:p0, \"y"`],
    ['a longer id that is quoted', 'URI:"kvferry:engine:p0, URI:kvferry:engine:d0"'],
  ])('is not read out of %s', (_, text) => {
    expect(readEngineName(text).kind).toBe('none')
  })
})

describe('a presented certificate', () => {
  const context = { ownEngineId: asEngineId('p0'), peerName: '10.0.0.2' }
  const certificate = {
    subjectAltName: 'URI:kvferry:engine:d0',
    validFrom: 'then',
    validTo: 'soon',
  }
  const good = { certificate, authorizationError: null, isSessionReused: false }

  it('names its engine when all is right', () => {
    expect(judgeCertificate(good, context)).toBe('d0')
  })

  it.each([
    ['a wrong chain', { authorizationError: 'UNABLE_TO_VERIFY_LEAF_SIGNATURE' }, /not issued/],
    ['a wrong purpose', { authorizationError: 'INVALID_PURPOSE' }, /clientAuth and serverAuth/],
    ['anything else', { authorizationError: 'CERT_REVOKED' }, /CERT_REVOKED/],
    ['no certificate', { certificate: null }, /no certificate/],
    ['a resumed session', { isSessionReused: true }, /not resumed/],
    ['no name', { certificate: { ...certificate, subjectAltName: 'DNS:d0' } }, /names no engine/],
  ])('with %s is refused, whatever else is right', (_, wrong, reason) => {
    const verdict = judgeCertificate({ ...good, ...wrong }, context)
    expect(ConnectorError.isInstance(verdict)).toBe(true)
    expect(verdict).toMatchObject({ code: 'ERR_KV_UNAUTHORISED' })
    expect((verdict as ConnectorError).message).toMatch(/^engine "p0" refuses .*10\.0\.0\.2/)
    expect((verdict as ConnectorError).message).toMatch(reason)
  })
})
