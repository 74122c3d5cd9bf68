/**
 * `kvferry certs`: a directory with a development CA and one certificate per engine, and what to write into
 * each engine's configuration. A CA that is there is used again, so that engines can be added later;
 * what is there is never overwritten unasked.
 */
import { access, mkdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { X509Certificate } from 'node:crypto'
import { engineIdPattern } from '../config/schema.ts'
import type { IssuedCertificate, Validity } from '../tls/issue-certificates.ts'
import {
  exitCodes,
  report,
  UsageError,
  type CliStreams,
  type ExitCode,
  type JsonOption,
} from './report.ts'

export interface CertsOptions extends JsonOption {
  readonly dir: string
  readonly engine: readonly string[]
  readonly days: number
  readonly force?: boolean
}

const dayMs = 86_400_000
const authorityDays = 3_650
/** Clocks of two machines differ; a certificate must not begin in one's future. */
const earlierMs = 300_000

const authorityFiles = (directory: string) => ({
  certificate: join(directory, 'ca.pem'),
  key: join(directory, 'ca.key'),
})
const engineFiles = (directory: string, engineId: string) => ({
  certificate: join(directory, `${engineId}.pem`),
  key: join(directory, `${engineId}.key`),
})

const exists = (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  )

/** Complete or not at all, and readable for its owner alone, also where a wider file was before. */
async function writeOwn(path: string, text: string): Promise<void> {
  const draft = `${path}.${process.pid}.new`
  try {
    await writeFile(draft, text, { mode: 0o600, flag: 'wx' })
    await rename(draft, path)
  } catch (error) {
    await rm(draft, { force: true })
    throw error
  }
}

/**
 * With the directories above it. Not `recursive: true`, which goes on for ever where a directory exists
 * and nothing can be made in it (`/proc`).
 */
async function makeDirectory(path: string): Promise<void> {
  try {
    await mkdir(path, { mode: 0o700 })
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'EEXIST' && (await stat(path)).isDirectory()) return
    const parent = dirname(path)
    if (code !== 'ENOENT' || parent === path || (await exists(parent))) throw error
    await makeDirectory(parent)
    await mkdir(path, { mode: 0o700 })
  }
}

/** @throws UsageError for ids that can't be an engine's, or would be another file's name. */
function checkEngineIds(engineIds: readonly string[]): void {
  for (const engineId of engineIds) {
    if (!engineIdPattern.test(engineId) || engineId.length > 64 || engineId === 'ca') {
      const remedy = 'use 1 to 64 characters out of A-Z a-z 0-9 . _ - (and not "ca")'
      throw new UsageError(`--engine ${JSON.stringify(engineId)}: ${remedy}`)
    }
  }
  if (new Set(engineIds).size !== engineIds.length) {
    throw new UsageError('--engine: name each engine once')
  }
}

async function openAuthority(
  directory: string,
  now: number,
): Promise<{ readonly authority: IssuedCertificate; readonly isNew: boolean }> {
  const { createAuthority } = await import('../tls/issue-certificates.ts')
  const { certificate, key } = authorityFiles(directory)
  const [hasCertificate, hasKey] = await Promise.all([exists(certificate), exists(key)])
  if (hasCertificate !== hasKey) {
    const [there, missing] = hasKey ? [key, certificate] : [certificate, key]
    throw new UsageError(
      `${there} is there without ${missing}: put both there, or use another --dir`,
    )
  }
  if (hasCertificate) {
    const [certificatePem, keyPem] = await Promise.all([
      readFile(certificate, 'utf8'),
      readFile(key, 'utf8'),
    ])
    return { authority: { certificatePem, keyPem }, isNew: false }
  }
  const notAfter = new Date(now + authorityDays * dayMs)
  const authority = await createAuthority({ notBefore: new Date(now - earlierMs), notAfter })
  await writeOwn(key, authority.keyPem)
  await writeOwn(certificate, authority.certificatePem)
  return { authority, isNew: true }
}

/** An engine's certificate never outlives the CA's, or it would fail on a day nobody expects. */
function validityOf(days: number, { certificatePem }: IssuedCertificate, now: number): Validity {
  const authorityEnd = Date.parse(new X509Certificate(certificatePem).validTo)
  if (authorityEnd <= now) {
    throw new UsageError('the CA in that directory has expired: use another --dir')
  }
  const notAfter = new Date(Math.min(now + days * dayMs, authorityEnd))
  return { notBefore: new Date(now - earlierMs), notAfter }
}

function configurationFor(directory: string, engineId: string, others: readonly string[]): string {
  const { certificate, key } = engineFiles(directory, engineId)
  const ca = authorityFiles(directory).certificate
  const peers = others.map(
    (other) => `  - { engineId: ${other}, host: <address of ${other}>, port: 5600 }`,
  )
  return [
    `# kvferry.yaml of ${engineId}`,
    `engineId: ${engineId}`,
    'sideChannel:',
    `  host: <address of ${engineId}>`,
    '  port: 5600',
    '  tls:',
    ...Object.entries({ ca, cert: certificate, key }).map(
      ([name, path]) => `    ${name}: ${JSON.stringify(path)}`,
    ),
    'peers:',
    ...(peers.length > 0 ? peers : ['  - { engineId: <its id>, host: <its address>, port: 5600 }']),
  ].join('\n')
}

export async function certs(options: CertsOptions, streams: CliStreams): Promise<ExitCode> {
  const { engine: engineIds, days, force = false } = options
  checkEngineIds(engineIds)
  const directory = resolve(options.dir)
  const files = engineIds.map((engineId) => engineFiles(directory, engineId))
  const targets = files.flatMap(({ certificate, key }) => [certificate, key])
  const present = (
    await Promise.all(targets.map(async (path) => ((await exists(path)) ? [path] : [])))
  ).flat()
  if (present.length > 0 && !force) {
    throw new UsageError(`${present.join(', ')}: exists already; add --force to overwrite`)
  }
  try {
    await makeDirectory(directory)
    const now = Date.now()
    const { authority, isNew } = await openAuthority(directory, now)
    const validity = validityOf(days, authority, now)
    const { issueEngineCertificate } = await import('../tls/issue-certificates.ts')
    for (const [index, engineId] of engineIds.entries()) {
      const issued = await issueEngineCertificate({ authority, engineId, validity })
      const { certificate, key } = files[index]!
      // The key first: an engine that looks between the two finds a pair that doesn't match, and waits.
      await writeOwn(key, issued.keyPem)
      await writeOwn(certificate, issued.certificatePem)
    }
    await report(streams, options, describe({ directory, engineIds, isNew, validity }))
    return exitCodes.success
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    if (error instanceof UsageError) throw error
    streams.stderr(`kvferry certs: ${directory}: ${code ?? 'failed'}: ${message}\n`)
    return exitCodes.failed
  }
}

function describe(made: {
  readonly directory: string
  readonly engineIds: readonly string[]
  readonly isNew: boolean
  readonly validity: Validity
}): { readonly json: object; readonly text: string } {
  const { directory, engineIds, isNew, validity } = made
  const until = validity.notAfter.toISOString()
  const authority = authorityFiles(directory)
  const json = {
    schema: 'kvferry.certs/1',
    ca: { ...authority, isNew },
    engines: engineIds.map((engineId) => ({
      engineId,
      ...engineFiles(directory, engineId),
      notAfter: until,
    })),
  }
  const configurations = engineIds.map((engineId) =>
    configurationFor(
      directory,
      engineId,
      engineIds.filter((other) => other !== engineId),
    ),
  )
  const text = [
    `${isNew ? 'made' : 'used'} the CA ${authority.certificate}; certificates valid until ${until}`,
    `keep ${authority.key} away from the engines: whoever has it can make certificates`,
    '',
    configurations.join('\n\n'),
  ].join('\n')
  return { json, text }
}
