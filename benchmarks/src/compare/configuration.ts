/**
 * Which connector configurations a run compares, and what they are called in results: the connector's
 * name plus its options that aren't the default (`pull`, `pull-inline`, …).
 */
import {
  assertServes,
  ConnectorError,
  loadConnector,
  type ConnectorFactory,
  type TransferPath,
} from '@kvferry/connector-api'
import { nearestKey } from '@kvferry/runtime'
import { UsageError } from '../usage-error.ts'
import type { Build } from './other-build.ts'

/** Where the engine runs connector hooks in a step: added to it, or beside the modelled forward. */
export type Hooks = 'additive' | 'after-launch'

export interface Configuration {
  readonly connector: string
  /** Only what differs from the connector's defaults. */
  readonly options: Readonly<Record<string, unknown>>
  readonly hooks: Hooks
  /** The engines' `path`, where the user chose one: for all connectors alike, so none of their options. */
  readonly path?: TransferPath
  /** Absent: this build's programs. */
  readonly build?: Build
  readonly label: string
}

/** One connector as the user chose it. */
export interface ConnectorChoice {
  readonly connector: string
  /** For this choice alone. */
  readonly options: Readonly<Record<string, unknown>>
}

export type Posting = 'both' | 'background' | 'inline'

const defaultHooks: Hooks = 'after-launch'

/** `posting: inline` → `inline`, `progressive: true` → `progressive`, numbers keep their name. */
function labelPart(key: string, value: unknown): string {
  if (value === true) return key
  if (typeof value === 'string') return value
  return `${key}=${String(value)}`
}

export function labelOf(
  name: string,
  options: Readonly<Record<string, unknown>>,
  hooks: Hooks = defaultHooks,
): string {
  const parts = Object.entries(options).map(([key, value]) => labelPart(key, value))
  return [name, ...parts, ...(hooks === defaultHooks ? [] : [hooks])].join('-')
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
 * Checks what `--option` gives to every connector, and says how to give it to one.
 * @throws ConnectorError ERR_KV_CONFIG.
 */
function checkShared(factory: ConnectorFactory, request: ConfigurationRequest): void {
  try {
    factory.parseOptions(withoutPath(request.options))
  } catch (error) {
    if (!ConnectorError.isInstance(error) || request.connectors.length === 1) throw error
    const [[key, value] = ['key', 'value']] = Object.entries(request.options)
    const remedy = `give it to one connector: --connectors NAME:${key}=${String(value)}`
    const details = { field: `${factory.name} options`, value: key, remedy }
    throw new ConnectorError(
      'ERR_KV_CONFIG',
      `${factory.name}: ${error.message}; ${remedy}`,
      details,
    )
  }
}

/** A connector that the user spelt out (options of its own, or named twice) is taken as it stands. */
function variantsOf(
  choice: ConnectorChoice,
  defaults: Readonly<Record<string, unknown>>,
  request: ConfigurationRequest,
): Record<string, unknown>[] {
  const isSpeltOut =
    Object.keys(choice.options).length > 0 ||
    request.connectors.filter((each) => each.connector === choice.connector).length > 1
  // An explicit `--option posting=…` decides alone.
  if ('posting' in request.options || (isSpeltOut && request.posting === 'both')) return [{}]
  return postingVariants(defaults, request.posting)
}

function withoutPath(options: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(options).filter(([key]) => key !== 'path'))
}

const pathWords: readonly TransferPath[] = ['auto', 'descriptors', 'slabs', 'ipc']

/** @throws ConnectorError ERR_KV_CONFIG. */
function pathOf(factory: ConnectorFactory, value: unknown): { readonly path?: TransferPath } {
  if (value === undefined || value === 'auto') return {}
  const path = pathWords.find((word) => word === value)
  if (path === undefined) {
    const remedy = `use ${pathWords.join(' or ')}`
    throw new ConnectorError('ERR_KV_CONFIG', `path is ${String(value)}: ${remedy}`, {
      ...{ field: 'path', value: String(value), remedy },
    })
  }
  assertServes(factory, { path, bufferDevice: 'device' })
  return { path }
}

export interface ConfigurationRequest {
  readonly connectors: readonly ConnectorChoice[]
  readonly posting: Posting
  /** For every connector; a choice's own options win. */
  readonly options: Readonly<Record<string, unknown>>
  readonly hooks: readonly Hooks[]
}

/**
 * @throws ConnectorError ERR_KV_CONFIG for an option or value that the connector doesn't know,
 *   ERR_KV_CONNECTOR_NOT_INSTALLED; UsageError when two configurations are the same.
 */
export async function resolveConfigurations(
  request: ConfigurationRequest,
): Promise<Configuration[]> {
  const result: Configuration[] = []
  for (const choice of request.connectors) {
    const { connector } = choice
    refuseMisspelt(connector)
    const factory = await loadConnector(connector, (name) => import(name))
    const defaults = factory.parseOptions({})
    checkShared(factory, request)
    for (const variant of variantsOf(choice, defaults, request)) {
      const all = { ...variant, ...request.options, ...choice.options }
      const path = pathOf(factory, all['path'])
      const given = withoutPath(all)
      factory.parseOptions(given)
      const options = nonDefault(given, defaults)
      for (const hooks of request.hooks) {
        const label = labelOf(factory.name, { ...options, ...path }, hooks)
        result.push({ connector, options, hooks, ...path, label })
      }
    }
  }
  refuseRepeated(result)
  return result
}

function refuseRepeated(configurations: readonly Configuration[]): void {
  const labels = configurations.map(({ label }) => label)
  const repeated = labels.find((label, index) => labels.indexOf(label) !== index)
  if (repeated === undefined) return
  throw new UsageError(`--connectors: "${repeated}" is there twice; name each configuration once`)
}

/** Each configuration by this build and by the other one, next to each other. */
export const besideBuild = (
  configurations: readonly Configuration[],
  build: Build,
): Configuration[] =>
  configurations.flatMap((configuration) => [
    configuration,
    { ...configuration, build, label: `${configuration.label}@${build.name}` },
  ])

/** What an experiment has to know of a connector beside its name. */
export interface ConnectorTraits {
  /** The producer keeps tickets, and counts them. */
  readonly hasTickets: boolean
  readonly optionNames: ReadonlySet<string>
}

/** Of a connector that is there. */
export async function traitsOf(connector: string): Promise<ConnectorTraits> {
  const factory = await loadConnector(connector, (specifier) => import(specifier))
  return {
    hasTickets: factory.capabilities.transferMode === 'ticket',
    optionNames: new Set(Object.keys(factory.parseOptions({}))),
  }
}
