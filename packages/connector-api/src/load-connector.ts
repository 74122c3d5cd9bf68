/**
 * The config word: turns `connector: pull` into that package's factory by a dynamic import, so that an
 * installation needs only the connectors it uses.
 */
import type { KvferryConfig, TransferPath } from './config.ts'
import { ConnectorError } from './errors.ts'
import type { ConnectorFactory } from './connector.ts'
import { unsupported } from './protocol/failures.ts'
import { nearestOption } from './protocol/nearest-option.ts'

const ownConnectors = ['pull', 'push', 'xavier'] as const

function packageName(connector: string): string {
  return (ownConnectors as readonly string[]).includes(connector)
    ? `@kvferry/connector-${connector}`
    : connector
}

function isFactory(value: unknown): value is ConnectorFactory {
  if (typeof value !== 'object' || value === null) return false
  const candidate = value as Partial<ConnectorFactory>
  return (
    typeof candidate.name === 'string' &&
    typeof candidate.capabilities === 'object' &&
    typeof candidate.createScheduler === 'function' &&
    typeof candidate.createWorker === 'function' &&
    typeof candidate.parseOptions === 'function'
  )
}

/** True when the import failed because the package itself is missing, not something inside it. */
function isMissingPackage(error: unknown, name: string): boolean {
  const { code, message } = error as { code?: unknown; message?: unknown }
  return (
    code === 'ERR_MODULE_NOT_FOUND' && typeof message === 'string' && message.includes(`'${name}'`)
  )
}

function misspelt(connector: string, meant: string, cause: unknown): ConnectorError {
  const remedy = `did you mean "${meant}"? Otherwise name a connector package that is installed`
  return new ConnectorError(
    'ERR_KV_CONFIG',
    `connector is "${connector}": ${remedy}`,
    { field: 'connector', value: connector, remedy },
    { cause },
  )
}

/**
 * Refuses what the config asks of a connector that can't do it, before anything is made of either.
 * @throws ConnectorError ERR_KV_CONFIG (`path`), ERR_KV_UNSUPPORTED (`bufferDevice`).
 */
export function assertServes(
  { name, capabilities }: Pick<ConnectorFactory, 'name' | 'capabilities'>,
  { path, bufferDevice }: Pick<KvferryConfig, 'path' | 'bufferDevice'>,
): void {
  const paths: readonly TransferPath[] = capabilities.transferPaths ?? ['descriptors']
  if (path !== 'auto' && !paths.includes(path)) {
    const remedy = `use auto or ${paths.join(' or ')}`
    const message = `path is ${path}, which ${name} does not take: ${remedy}`
    throw new ConnectorError('ERR_KV_CONFIG', message, { field: 'path', value: path, remedy })
  }
  if (bufferDevice === 'host' && capabilities.stagesInHostMemory !== true) {
    const remedy = 'use bufferDevice: device, or connector: pull'
    const message = `bufferDevice is host, but ${name} does not stage in host memory: ${remedy}`
    throw unsupported('bufferDevice', message)
  }
}

/**
 * Imports a connector by its config word. The package's default export is its factory. `importModule`
 * resolves from the caller's place (pass `(name) => import(name)` from the assembling package).
 * @throws ConnectorError ERR_KV_CONNECTOR_NOT_INSTALLED, ERR_KV_CONFIG (the package is no connector, or
 *   the word looks like a misspelt one of ours).
 */
export async function loadConnector(
  connector: string,
  importModule: (name: string) => Promise<unknown> = (name) => import(name),
): Promise<ConnectorFactory> {
  const name = packageName(connector)
  let loaded: unknown
  try {
    loaded = await importModule(name)
  } catch (cause) {
    if (!isMissingPackage(cause, name)) throw cause
    // Never the advice to install what a slip of the finger named: such packages exist.
    const meant = name === connector ? nearestOption(connector, ownConnectors, new Map()) : null
    if (meant !== null) throw misspelt(connector, meant, cause)
    const command = `npm install ${name}`
    throw new ConnectorError(
      'ERR_KV_CONNECTOR_NOT_INSTALLED',
      `connector "${connector}" is not installed; run: ${command}`,
      { connector, command },
      { cause },
    )
  }
  const factory = (loaded as { default?: unknown }).default
  if (!isFactory(factory)) {
    throw new ConnectorError(
      'ERR_KV_CONFIG',
      `connector: package "${name}" has no ConnectorFactory as its default export`,
      {
        field: 'connector',
        value: connector,
        remedy: 'name pull, push, xavier or a connector package',
      },
    )
  }
  return factory
}
