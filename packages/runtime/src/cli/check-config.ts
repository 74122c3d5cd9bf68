/**
 * `kvferry check-config FILE`: everything that an engine would refuse at its start, without starting one.
 * The connector's own options can be judged only by the connector, so it is loaded from the working
 * directory's installation; where it isn't installed the result says that they weren't checked.
 */
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import {
  ConnectorError,
  loadConnector,
  type AnyConnectorError,
  type KvferryConfig,
} from '@kvferry/connector-api'
import { readConfigFile } from '../config/load-config-file.ts'
import { parseConfig } from '../config/parse-config.ts'
import { sideChannel } from '../config/schema.ts'
import { loadCredentials } from '../tls/credentials.ts'
import { exitCodes, report, type CliStreams, type ExitCode, type JsonOption } from './report.ts'

/** Resolved as a program in the working directory would resolve it. */
async function importFromHere(name: string): Promise<unknown> {
  const { resolve } = createRequire(join(process.cwd(), 'kvferry-check-config.js'))
  let path: string
  try {
    path = resolve(name)
  } catch (cause) {
    const message = `Cannot find package '${name}'`
    throw Object.assign(new Error(message, { cause }), { code: 'ERR_MODULE_NOT_FOUND' })
  }
  return import(pathToFileURL(path).href)
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

/** Null when the options are right, or why they weren't checked. @throws ConnectorError ERR_KV_CONFIG. */
async function checkOptions({ connector, options = {} }: Fields): Promise<string | null> {
  // Both are problems of the file itself, and said there.
  if (typeof connector !== 'string' || !isValidAlone({ connector })) return 'no valid connector'
  if (!isFields(options)) return 'they are no object'
  try {
    const factory = await loadConnector(connector, importFromHere)
    factory.parseOptions(options)
    return null
  } catch (error) {
    if (!ConnectorError.isInstance(error)) throw error
    if (error.code !== 'ERR_KV_CONNECTOR_NOT_INSTALLED') throw error
    return error.message
  }
}

function describe(config: KvferryConfig, unchecked: string | null): string {
  const { host, port } = config.sideChannel
  const peers = config.peers === null ? 'any loopback peer' : `${config.peers.length} listed`
  const lines = [
    `valid: connector ${config.connector}, role ${config.role}, engine ${config.engineId}`,
    `side channel ${host}:${port === 0 ? 'any free port' : port}, peers: ${peers}`,
  ]
  if (unchecked !== null) lines.push(`options were not checked: ${unchecked}`)
  return lines.join('\n')
}

/** @throws ConnectorError ERR_KV_CONFIG: certificates with which the engine wouldn't start. */
async function checkCertificates({ sideChannel: section, engineId }: Fields): Promise<void> {
  const parsed = sideChannel.safeParse(section)
  if (!parsed.success || parsed.data.tls === null) return
  await loadCredentials(parsed.data.tls, typeof engineId === 'string' ? engineId : null)
}

interface Findings {
  readonly config: KvferryConfig | null
  readonly unchecked: string | null
  readonly errors: readonly AnyConnectorError[]
}

/** Each part is checked although another is wrong: a file is mended in one go. */
async function examine(document: unknown): Promise<Findings> {
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
  const unchecked = await collect(() => checkOptions(fields))
  await collect(() => checkCertificates(fields))
  return { config, unchecked, errors }
}

export async function checkConfig(
  file: string,
  options: JsonOption,
  streams: CliStreams,
): Promise<ExitCode> {
  const schema = 'kvferry.check-config/1'
  const { config, unchecked, errors } = await readConfigFile(file).then(examine, refusedFile)
  const [first] = errors
  if (first === undefined && config !== null) {
    const json = { schema, file, valid: true, optionsChecked: unchecked === null, config }
    await report(streams, options, { json, text: describe(config, unchecked) })
    return exitCodes.success
  }
  const plain = errors.map(({ code, message, details }) => ({ code, message, details }))
  const json = { schema, file, valid: false, error: plain[0], errors: plain }
  if (options.json !== undefined) await report(streams, options, { json, text: 'not valid' })
  for (const { message } of errors) streams.stderr(`kvferry check-config: ${file}: ${message}\n`)
  return exitCodes.failed
}

function refusedFile(error: unknown): Findings {
  if (!ConnectorError.isInstance(error)) throw error
  return { config: null, unchecked: null, errors: [error] }
}
