/**
 * A development CA and the certificates of engines, as `kvferry certs` writes them: ECDSA P-256, the engine's
 * name as a URI, both key usages, because every engine calls and is called. Makes PEM text and touches no
 * file. Operators with a CA of their own need none of this, only the same URI in their certificates.
 */
import { KeyObject, randomBytes, webcrypto } from 'node:crypto'
import {
  AuthorityKeyIdentifierExtension,
  BasicConstraintsExtension,
  ExtendedKeyUsage,
  ExtendedKeyUsageExtension,
  KeyUsageFlags,
  KeyUsagesExtension,
  PemConverter,
  SubjectAlternativeNameExtension,
  SubjectKeyIdentifierExtension,
  X509Certificate,
  X509CertificateGenerator,
} from '@peculiar/x509'
import { engineUri } from './engine-name.ts'

export interface IssuedCertificate {
  readonly certificatePem: string
  /** PKCS #8. */
  readonly keyPem: string
}

export interface Validity {
  readonly notBefore: Date
  readonly notAfter: Date
}

const curve = { name: 'ECDSA', namedCurve: 'P-256' } as const
const signature = { name: 'ECDSA', hash: 'SHA-256' } as const

/** Positive, and with 127 random bits as good as unique. */
function serialNumber(): string {
  const bytes = randomBytes(16)
  bytes[0] = ((bytes[0] ?? 0) & 0x7f) | 0x01
  return bytes.toString('hex')
}

const newKeys = (): Promise<webcrypto.CryptoKeyPair> =>
  webcrypto.subtle.generateKey(curve, true, ['sign', 'verify'])

const keyPemOf = (key: webcrypto.CryptoKey): string =>
  KeyObject.from(key).export({ type: 'pkcs8', format: 'pem' }) as string

export async function createAuthority(validity: Validity): Promise<IssuedCertificate> {
  const keys = await newKeys()
  const certificate = await X509CertificateGenerator.createSelfSigned(
    {
      ...validity,
      serialNumber: serialNumber(),
      name: `CN=KVFerry development CA ${randomBytes(4).toString('hex')}`,
      keys,
      signingAlgorithm: signature,
      extensions: [
        // Path length 0: it signs engines, and no other CA.
        new BasicConstraintsExtension(true, 0, true),
        new KeyUsagesExtension(KeyUsageFlags.keyCertSign | KeyUsageFlags.cRLSign, true),
        await SubjectKeyIdentifierExtension.create(keys.publicKey, false, webcrypto),
      ],
    },
    webcrypto,
  )
  return { certificatePem: `${certificate.toString('pem')}\n`, keyPem: keyPemOf(keys.privateKey) }
}

/** @throws Error for a CA certificate or key that can't be read, or that isn't of this kind. */
export async function issueEngineCertificate(options: {
  readonly authority: IssuedCertificate
  readonly engineId: string
  readonly validity: Validity
}): Promise<IssuedCertificate> {
  const { authority, engineId, validity } = options
  const issuer = new X509Certificate(authority.certificatePem)
  const signingKey = await webcrypto.subtle.importKey(
    'pkcs8',
    PemConverter.decodeFirst(authority.keyPem),
    curve,
    false,
    ['sign'],
  )
  const keys = await newKeys()
  const certificate = await X509CertificateGenerator.create(
    {
      ...validity,
      serialNumber: serialNumber(),
      subject: `CN=${engineId}`,
      issuer: issuer.subject,
      publicKey: keys.publicKey,
      signingKey,
      signingAlgorithm: signature,
      extensions: [
        new BasicConstraintsExtension(false, undefined, true),
        new KeyUsagesExtension(KeyUsageFlags.digitalSignature, true),
        new ExtendedKeyUsageExtension([ExtendedKeyUsage.serverAuth, ExtendedKeyUsage.clientAuth]),
        new SubjectAlternativeNameExtension([{ type: 'url', value: engineUri(engineId) }]),
        await SubjectKeyIdentifierExtension.create(keys.publicKey, false, webcrypto),
        await AuthorityKeyIdentifierExtension.create(issuer, false, webcrypto),
      ],
    },
    webcrypto,
  )
  return { certificatePem: `${certificate.toString('pem')}\n`, keyPem: keyPemOf(keys.privateKey) }
}
