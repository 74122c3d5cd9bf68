/**
 * Which connector configurations a run compares, and what they are called in results: the connector's
 * name plus its options that aren't the default (`pull`, `pull-inline`, …).
 */
import { ConnectorError, loadConnector } from '@kvferry/connector-api'
import { nearestKey } from '@kvferry/runtime'

export interface Configuration {
  readonly connector: string
  /** Only what differs from the connector's defaults. */
  readonly options: Readonly<Record<string, unknown>>
  readonly label: string
}

export type Posting = 'both' | 'background' | 'inline'

/** `posting: inline` → `inline`, `progressive: true` → `progressive`, numbers keep their name. */
function labelPart(key: string, value: unknown): string {
  if (value === true) return key
  if (typeof value === 'string') return value
  return `${key}=${String(value)}`
}

export function labelOf(name: string, options: Readonly<Record<string, unknown>>): string {
  const parts = Object.entries(options).map(([key, value]) => labelPart(key, value))
  return [name, ...parts].join('-')
}

function nonDefault(
  options: Readonly<Record<string, unknown>>,
  defaults: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(options).filter(([key, value]) => value !== defaults[key]),
  )
}

/** Posting modes are `pull`'s; a connector without that option has one configuration. */
function postingVariants(
  defaults: Readonly<Record<string, unknown>>,
  posting: Posting,
): Record<string, unknown>[] {
  if (!('posting' in defaults)) return [{}]
  if (posting === 'both') return [{ posting: 'background' }, { posting: 'inline' }]
  return [{ posting }]
}

const ownConnectors = ['pull', 'push', 'xavier']

/** A typo must not become the advice to install a stranger's package of that name. */
function refuseMisspelt(connector: string): void {
  const meant = ownConnectors.includes(connector) ? null : nearestKey(connector, ownConnectors)
  if (meant === null) return
  throw new ConnectorError(
    'ERR_KV_CONFIG',
    `connectors: "${connector}" is none; did you mean "${meant}"?`,
    { field: 'connectors', value: connector, remedy: `write ${meant}` },
  )
}

/**
 * @throws ConnectorError ERR_KV_CONFIG for an option or value that the connector doesn't know,
 *   ERR_KV_CONNECTOR_NOT_INSTALLED.
 */
export async function resolveConfigurations(request: {
  readonly connectors: readonly string[]
  readonly posting: Posting
  readonly options: Readonly<Record<string, unknown>>
}): Promise<Configuration[]> {
  const result: Configuration[] = []
  for (const connector of request.connectors) {
    refuseMisspelt(connector)
    const factory = await loadConnector(connector, (name) => import(name))
    const defaults = factory.parseOptions({})
    // An explicit `--option posting=…` decides alone.
    const variants =
      'posting' in request.options ? [{}] : postingVariants(defaults, request.posting)
    for (const variant of variants) {
      const given = { ...variant, ...request.options }
      factory.parseOptions(given)
      const options = nonDefault(given, defaults)
      result.push({ connector, options, label: labelOf(factory.name, options) })
    }
  }
  return result
}
