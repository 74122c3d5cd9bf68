/**
 * The certificate, key and CA of this engine: read from the configured files and judged by the rules that
 * peers will apply, so that an engine which nobody would let in doesn't start. Called at start, at every
 * reload, and by `kvferry check-config`.
 */
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { resolve } from 'node:path'
import { createSecureContext, type SecureContext } from 'node:tls'
import { ConnectorError, type EngineId, type TlsFiles } from '@kvferry/connector-api'
import { readBoundedFile } from '../bounded-file.ts'
import { configError, showValue, type Problem } from '../config/problem.ts'
import { engineUri, readEngineName } from './engine-name.ts'
import { tlsLimits } from './limits.ts'

/** As OpenSSL takes them; a plain object, because a server makes its own context of it. */
export interface TlsMaterial {
  readonly ca: string
  readonly cert: string
  readonly key: string
  readonly minVersion: 'TLSv1.3'
}

export interface Credentials {
  readonly material: TlsMaterial
  readonly context: SecureContext
  /** Whom the certificate names. */
  readonly engineId: EngineId
  /** Milliseconds since the epoch. */
  readonly notAfter: number
}

type Part = keyof TlsFiles

const problemOf = (part: Part, path: string, remedy: string): Problem => ({
  field: `sideChannel.tls.${part}`,
  value: showValue(resolve(path)),
  remedy,
})

const problem = (part: Part, path: string, remedy: string, cause?: unknown): Error =>
  configError([problemOf(part, path, remedy)], { cause })

/** The file's text, or what is wrong with it. */
async function readPem(part: Part, path: string): Promise<string | Problem> {
  try {
    const read = await readBoundedFile(path, tlsLimits.pemSizeBytesMax)
    if (read.kind === 'too-large') {
      return problemOf(part, path, `use a PEM file of at most ${tlsLimits.pemSizeBytesMax} bytes`)
    }
    const text = Buffer.from(read.bytes).toString('latin1')
    if (text.includes('-----BEGIN ')) return text
    return problemOf(part, path, 'use a file in PEM form; this one has no "-----BEGIN" line')
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    return problemOf(part, path, `name a readable PEM file (${code ?? String(cause)})`)
  }
}

/** @throws ConnectorError ERR_KV_CONFIG naming every file that can't be used. */
async function readFiles({ ca, cert, key }: TlsFiles): Promise<[string, string, string]> {
  const read = await Promise.all([readPem('ca', ca), readPem('cert', cert), readPem('key', key)])
  const [first, ...others] = read.filter((part) => typeof part !== 'string')
  if (first !== undefined) throw configError([first, ...others])
  return read as [string, string, string]
}

function parseCertificate(part: Part, path: string, pem: string): X509Certificate {
  try {
    return new X509Certificate(pem)
  } catch (cause) {
    throw problem(part, path, 'use a PEM certificate; this one cannot be read', cause)
  }
}

/** @throws ConnectorError ERR_KV_CONFIG: a certificate that no peer would accept from this engine. */
function checkOwn(path: string, certificate: X509Certificate, engineId: string | null): EngineId {
  const name = readEngineName(certificate.subjectAltName)
  if (name.kind === 'none') {
    const wanted = engineUri(engineId ?? '<id>')
    throw problem('cert', path, `use a certificate with the URI name ${wanted}: ${name.reason}`)
  }
  if (engineId !== null && name.engineId !== engineId) {
    const remedy = `use the certificate of engine "${engineId}": this one names "${name.engineId}"`
    throw problem('cert', path, remedy)
  }
  const now = Date.now()
  if (Date.parse(certificate.validTo) < now) {
    throw problem('cert', path, `use a valid certificate: this one expired ${certificate.validTo}`)
  }
  if (Date.parse(certificate.validFrom) > now) {
    const remedy = `use a valid certificate: this one begins ${certificate.validFrom}`
    throw problem('cert', path, remedy)
  }
  return name.engineId
}

/**
 * Reads and judges the three files. `engineId` null: whoever the certificate names.
 * @throws ConnectorError ERR_KV_CONFIG naming the file and what is wrong with it.
 */
export async function loadCredentials(
  files: TlsFiles,
  engineId: string | null,
): Promise<Credentials> {
  const [ca, cert, key] = await readFiles(files)
  parseCertificate('ca', files.ca, ca)
  const certificate = parseCertificate('cert', files.cert, cert)
  const certified = checkOwn(files.cert, certificate, engineId)
  const material: TlsMaterial = { ca, cert, key, minVersion: 'TLSv1.3' }
  try {
    if (!certificate.checkPrivateKey(createPrivateKey(key))) {
      throw problem('key', files.key, 'use the private key that belongs to sideChannel.tls.cert')
    }
    const context = createSecureContext(material)
    return { material, context, engineId: certified, notAfter: Date.parse(certificate.validTo) }
  } catch (cause) {
    if (ConnectorError.isInstance(cause)) throw cause
    const reason = cause instanceof Error ? cause.message : String(cause)
    throw problem('key', files.key, `use an unencrypted PEM private key: ${reason}`, cause)
  }
}
