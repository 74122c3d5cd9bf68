/**
 * `kvferry check-config FILE`: everything that an engine would refuse at its start, without starting one.
 * The connector's own options can be judged only by the connector, so it is loaded: from the working
 * directory's installation, or else from the one that this command is part of.
 */
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import {
  assertServes,
  ConnectorError,
  loadConnector,
  type AnyConnectorError,
  type ConnectorFactory,
  type KvferryConfig,
} from '@kvferry/connector-api'
import { readConfigFile } from '../config/load-config-file.ts'
import { parseConfig } from '../config/parse-config.ts'
import { sideChannel } from '../config/schema.ts'
import { checkIssuer } from '../tls/check-issuer.ts'
import { loadCredentials } from '../tls/credentials.ts'
import {
  exitCodes,
  report,
  UsageError,
  type CliStreams,
  type ExitCode,
  type JsonOption,
} from './report.ts'

/** Resolved as a program in that directory would resolve it, or else as this package does. */
async function importFrom(directory: string, name: string): Promise<unknown> {
  const origins = [join(directory, 'kvferry-check-config.js'), import.meta.url]
  let cause: unknown
  for (const origin of origins) {
    let path: string
    try {
      path = createRequire(origin).resolve(name)
    } catch (error) {
      cause = error
      continue
    }
    return import(pathToFileURL(path).href)
  }
  const message = `Cannot find package '${name}'`
  throw Object.assign(new Error(message, { cause }), { code: 'ERR_MODULE_NOT_FOUND' })
}

type Fields = Readonly<Record<string, unknown>>

const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

function isValidAlone(document: Fields): boolean {
  try {
    parseConfig(document)
    return true
  } catch (error) {
    if (!ConnectorError.isInstance(error)) throw error
    return false
  }
}

/** @throws ConnectorError ERR_KV_CONFIG, ERR_KV_CONNECTOR_NOT_INSTALLED. */
async function loadFactory(
  { connector }: Fields,
  directory: string,
): Promise<ConnectorFactory | null> {
  // Other problems of the file itself are said there.
  if (typeof connector !== 'string' || !isValidAlone({ connector })) return null
  return loadConnector(connector, (name) => importFrom(directory, name))
}

function describe(config: KvferryConfig): string {
  const { host, port } = config.sideChannel
  const peers = config.peers === null ? 'any loopback peer' : `${config.peers.length} listed`
  return [
    `valid: connector ${config.connector}, role ${config.role}, engine ${config.engineId}`,
    `side channel ${host}:${port === 0 ? 'any free port' : port}, peers: ${peers}`,
  ].join('\n')
}

/** @throws ConnectorError ERR_KV_CONFIG: certificates with which the engine wouldn't start. */
async function checkCertificates({ sideChannel: section, engineId }: Fields): Promise<void> {
  const parsed = sideChannel.safeParse(section)
  if (!parsed.success || parsed.data.tls === null) return
  const { tls } = parsed.data
  const { material } = await loadCredentials(tls, typeof engineId === 'string' ? engineId : null)
  checkIssuer(tls, material)
}

interface Findings {
  readonly config: KvferryConfig | null
  readonly errors: readonly AnyConnectorError[]
}

/** Each part is checked although another is wrong: a file is mended in one go. */
async function examine(document: unknown, directory: string): Promise<Findings> {
  const fields = isFields(document) ? document : {}
  const errors: AnyConnectorError[] = []
  const collect = async <T>(check: () => T | Promise<T>): Promise<T | null> => {
    try {
      return await check()
    } catch (error) {
      if (!ConnectorError.isInstance(error)) throw error
      errors.push(error)
      return null
    }
  }
  const config = await collect(() => parseConfig(document))
  const factory = await collect(() => loadFactory(fields, directory))
  if (factory !== null) {
    const { options = {} } = fields
    const parsed = isFields(options) ? await collect(() => factory.parseOptions(options)) : null
    if (config !== null) {
      await collect(() => assertServes(factory, config))
      if (parsed !== null) await collect(() => factory.checkConfig?.(config))
    }
  }
  await collect(() => checkCertificates(fields))
  return { config, errors }
}

export async function checkConfig(
  file: string,
  options: JsonOption,
  streams: CliStreams,
): Promise<ExitCode> {
  const schema = 'kvferry.check-config/1'
  const directory = streams.directory ?? process.cwd()
  const { config, errors } = await readConfigFile(file).then(
    (document) => examine(document, directory),
    (error: unknown) => refusedFile(file, error),
  )
  const [first] = errors
  if (first === undefined && config !== null) {
    const json = { schema, file, valid: true, optionsChecked: true, config }
    await report(streams, options, { json, text: describe(config) })
    return exitCodes.success
  }
  const plain = errors.map(({ code, message, details }) => ({ code, message, details }))
  const json = { schema, file, valid: false, error: plain[0], errors: plain }
  if (options.json !== undefined) await report(streams, options, { json, text: 'not valid' })
  for (const { message } of errors) streams.stderr(`kvferry check-config: ${file}: ${message}\n`)
  return exitCodes.failed
}

/** @throws UsageError for a file that isn't there or can't be read: nothing was checked. */
function refusedFile(file: string, error: unknown): Findings {
  if (!ConnectorError.isInstance(error)) throw error
  const { cause } = error
  const isUnreadable = cause instanceof Error && 'syscall' in cause
  if (isUnreadable) throw new UsageError(`check-config ${file}: ${error.message}`, { cause })
  return { config: null, errors: [error] }
}
