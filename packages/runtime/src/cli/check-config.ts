/**
 * `kvferry check-config FILE`: everything that an engine would refuse at its start, without starting one.
 * The connector's own options can be judged only by the connector, so it is loaded from the working
 * directory's installation; where it isn't installed the result says that they weren't checked.
 */
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { ConnectorError, loadConnector, type KvferryConfig } from '@kvferry/connector-api'
import { loadConfigFile } from '../config/load-config-file.ts'
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

/** Null when the options are right, or why they weren't checked. @throws ConnectorError ERR_KV_CONFIG. */
async function checkOptions(config: KvferryConfig): Promise<string | null> {
  try {
    const factory = await loadConnector(config.connector, importFromHere)
    factory.parseOptions(config.options)
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

export async function checkConfig(
  file: string,
  options: JsonOption,
  streams: CliStreams,
): Promise<ExitCode> {
  const schema = 'kvferry.check-config/1'
  try {
    const config = await loadConfigFile(file)
    const unchecked = await checkOptions(config)
    const json = { schema, file, valid: true, optionsChecked: unchecked === null, config }
    await report(streams, options, { json, text: describe(config, unchecked) })
    return exitCodes.success
  } catch (error) {
    if (!ConnectorError.isInstance(error)) throw error
    const { code, message, details } = error
    const json = { schema, file, valid: false, error: { code, message, details } }
    if (options.json !== undefined) await report(streams, options, { json, text: 'not valid' })
    streams.stderr(`kvferry check-config: ${file}: ${message}\n`)
    return exitCodes.failed
  }
}
