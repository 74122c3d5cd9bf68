/**
 * Certificates for tests, good and bad: a CA and what it (or another one) issues, as files in a directory
 * that goes away with the test.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TlsFiles } from '@kvferry/connector-api'
import {
  createAuthority,
  issueEngineCertificate,
  type IssuedCertificate,
} from '../../src/tls/issue-certificates.ts'

const dayMs = 86_400_000

export interface CertificateOptions {
  /** Whom it names. */
  readonly name: string
  /** Days from now. */
  readonly from?: number
  readonly until?: number
  /** Default: the store's own CA. */
  readonly authority?: IssuedCertificate
}

export interface TestCertificates {
  readonly directory: string
  readonly authority: IssuedCertificate
  /** Issues a certificate and writes the three files, under the name of the file prefix. */
  issue(prefix: string, options?: Partial<CertificateOptions>): Promise<TlsFiles>
  close(): void
}

const validity = (from: number, until: number) => ({
  notBefore: new Date(Date.now() + from * dayMs),
  notAfter: new Date(Date.now() + until * dayMs),
})

export const newAuthority = (): Promise<IssuedCertificate> => createAuthority(validity(-30, 30))

export async function createTestCertificates(): Promise<TestCertificates> {
  const directory = mkdtempSync(join(tmpdir(), 'kvferry-certs-'))
  const authority = await newAuthority()
  return {
    directory,
    authority,
    async issue(
      prefix,
      { name = prefix, from = -1, until = 20, authority: issuer = authority } = {},
    ) {
      const issued = await issueEngineCertificate({
        authority: issuer,
        engineId: name,
        validity: validity(from, until),
      })
      const path = (suffix: string) => join(directory, `${prefix}.${suffix}`)
      const files = { ca: path('ca.pem'), cert: path('pem'), key: path('key') }
      writeFileSync(files.ca, authority.certificatePem)
      writeFileSync(files.key, issued.keyPem, { mode: 0o600 })
      writeFileSync(files.cert, issued.certificatePem)
      return files
    },
    close: () => rmSync(directory, { recursive: true }),
  }
}
