/**
 * What a caller may say about an engine (the flags of `kvferry-engine`, in camelCase), and how flags, file
 * and defaults become one configuration. Flags win over the file; a role that both name must be the same.
 */
import type { ConnectorRole, KvferryConfig, TransferPath } from '@kvferry/connector-api'
import { parseConfig } from '@kvferry/runtime'
import { configError } from './config-error.ts'
import type { BlockOrder, CoreConfig, EngineSettings, KvLayout } from './core/core-messages.ts'
import { ipcOf } from './core/engine-paths.ts'
import { engineLimits } from './limits.ts'
import { modelPresets, resolveModel, wordSizeBytes, type ModelShape } from './model-presets.ts'

export interface EngineSettingOptions {
  /** `prefill`, `decode`, `both` or their connector names. Default: the file's, else both. */
  readonly role?: 'prefill' | 'decode' | ConnectorRole
  /** The config word. Absent here and in `config`: no connector, role both (the oracle). */
  readonly connector?: string
  /** The content of a kvferry.yaml. */
  readonly config?: Readonly<Record<string, unknown>>
  readonly engineId?: string
  readonly sideChannelPort?: number
  /** Which path transfers take; wins over the file's. */
  readonly path?: TransferPath
  /** CTAs of the kernels of path `ipc`; wins over the file's. Default: one for each multiprocessor. */
  readonly ipcCtas?: number
  /** Options of the connector; each one wins over the file's. */
  readonly options?: Readonly<Record<string, unknown>>
  readonly model?: string
  readonly kvScale?: number
  /** Factor on every modelled time; 0 = no waiting, for tests. */
  readonly timeScale?: number
  readonly blockSize?: number
  readonly numBlocks?: number
  /** Default `sequential`. */
  readonly blockOrder?: BlockOrder
  readonly maxNumSeqs?: number
  readonly maxNumBatchedTokens?: number
  readonly maxModelLen?: number
  readonly prefixCaching?: 'on' | 'off'
  readonly hooks?: 'additive' | 'after-launch'
  /** Where KV lies: `cpu` (default), or `cuda:N`. */
  readonly device?: string
  readonly tp?: number
  /** Order of tokens and heads in a block. Default `LBNHC`. */
  readonly kvLayout?: KvLayout
}

const roles: Readonly<Record<string, ConnectorRole>> = {
  prefill: 'producer',
  decode: 'consumer',
  both: 'both',
  producer: 'producer',
  consumer: 'consumer',
  kv_producer: 'producer',
  kv_consumer: 'consumer',
  kv_both: 'both',
}

const blockOrders: readonly BlockOrder[] = ['sequential', 'scattered']

const show = (value: unknown): string => (typeof value === 'string' ? `"${value}"` : String(value))

function integer(field: string, value: number, min: number, max: number): number {
  if (Number.isSafeInteger(value) && value >= min && value <= max) return value
  throw configError(field, show(value), `use an integer from ${min} to ${max}`)
}

function oneOf<T extends string>(field: string, value: string, known: readonly T[]): T {
  const found = known.find((word) => word === value)
  if (found === undefined) throw configError(field, show(value), `use ${known.join(' or ')}`)
  return found
}

function roleOf(field: string, word: unknown): ConnectorRole {
  const role = typeof word === 'string' && Object.hasOwn(roles, word) ? roles[word] : undefined
  if (role === undefined)
    throw configError(field, show(word), 'use prefill (or producer), decode (or consumer) or both')
  return role
}

function resolveRole(options: EngineSettingOptions): ConnectorRole {
  const fileWord = options.config?.['role']
  const fileRole = fileWord === undefined ? null : roleOf('config role', fileWord)
  const flagRole = options.role === undefined ? null : roleOf('role', options.role)
  if (fileRole !== null && flagRole !== null && fileRole !== flagRole) {
    const remedy = `the configuration file says role: ${String(fileWord)}; make them equal or name one only`
    throw configError('role', show(options.role), remedy)
  }
  return flagRole ?? fileRole ?? 'both'
}

/** Whether there is such a GPU is for the driver to say. */
function resolveDevice(word: string): number | null {
  if (word === 'cpu') return null
  const [, number] = /^cuda(?::(\d{1,4}))?$/.exec(word) ?? []
  if (word === 'cuda' || number !== undefined) return Number(number ?? 0)
  throw configError('device', show(word), 'use cpu, or cuda:N for the GPU of that number')
}

/** Each rank holds whole heads, and kernels write whole words. */
function resolveTpSize({ name, preset, slotSizeBytes }: ModelShape, tp: number): number {
  integer('tp', tp, 1, 1_024)
  const isWhole = preset.kvHeadCount % tp === 0 && slotSizeBytes % (tp * wordSizeBytes) === 0
  if (isWhole) return tp
  throw configError(
    'tp',
    show(tp),
    `use a divisor of the ${preset.kvHeadCount} KV heads of ${name}`,
  )
}

/** Content is written in whole words, and heads that share one don't lie side by side where they come first. */
function resolveKvLayout(shape: ModelShape, word: string): KvLayout {
  const layout = oneOf('kvLayout', word, ['LBNHC', 'LBHNC'])
  const headSizeBytes = shape.slotSizeBytes / shape.preset.kvHeadCount
  if (layout === 'LBNHC' || headSizeBytes % wordSizeBytes === 0) return layout
  const remedy = `a head of ${shape.name} at kvScale ${shape.kvScale} has ${headSizeBytes} bytes: lower kvScale or use LBNHC`
  throw configError('kvLayout', show(layout), remedy)
}

/**
 * The engine's part of the configuration, complete.
 * @throws ConnectorError ERR_KV_CONFIG.
 */
export function resolveSettings(options: EngineSettingOptions): EngineSettings {
  const { model = 'tiny', timeScale = 1 } = options
  const kvScale = integer('kvScale', options.kvScale ?? 1, 1, 1_024)
  const shape = resolveModel(model, kvScale)
  const tpSize = resolveTpSize(shape, options.tp ?? 1)
  const preset = modelPresets[model as keyof typeof modelPresets]
  const blockTokens = integer('blockSize', options.blockSize ?? 16, 1, engineLimits.blockTokensMax)
  const blockCount = integer(
    'numBlocks',
    options.numBlocks ?? preset.blockCount,
    1,
    engineLimits.blockCountMax,
  )
  const capacity = Math.min(blockCount * blockTokens, engineLimits.maxModelLenMax)
  const wanted = options.maxModelLen ?? Math.min(preset.maxModelLen, capacity)
  if (wanted > capacity) {
    const remedy = `${blockCount} blocks of ${blockTokens} tokens hold ${capacity}; raise numBlocks or lower it`
    throw configError('maxModelLen', show(wanted), remedy)
  }
  if (!Number.isFinite(timeScale) || timeScale < 0 || timeScale > 1_000) {
    throw configError('timeScale', show(timeScale), 'use a number from 0 to 1000')
  }
  const { maxNumSeqs = 64, maxNumBatchedTokens = 2_048 } = options
  return {
    role: resolveRole(options),
    model,
    kvScale,
    timeScale,
    tpSize,
    kvLayout: resolveKvLayout(shape, options.kvLayout ?? 'LBNHC'),
    blockTokens,
    blockCount,
    blockOrder: oneOf('blockOrder', options.blockOrder ?? 'sequential', blockOrders),
    maxNumSeqs: integer('maxNumSeqs', maxNumSeqs, 1, engineLimits.maxNumSeqsMax),
    maxNumBatchedTokens: integer(
      'maxNumBatchedTokens',
      maxNumBatchedTokens,
      1,
      engineLimits.maxModelLenMax,
    ),
    maxModelLen: integer('maxModelLen', wanted, 2, engineLimits.maxModelLenMax),
    isPrefixCachingOn:
      oneOf('prefixCaching', options.prefixCaching ?? 'on', ['on', 'off']) === 'on',
    hooks: oneOf('hooks', options.hooks ?? 'after-launch', ['additive', 'after-launch']),
    device: resolveDevice(options.device ?? 'cpu'),
  }
}

/** The connector's part; null without a connector. */
function resolveConnectorConfig(
  options: EngineSettingOptions,
  role: ConnectorRole,
): KvferryConfig | null {
  const file = options.config ?? {}
  const connector = options.connector ?? file['connector']
  if (connector === undefined) {
    if (options.config !== undefined) return parseConfig({ ...file, role })
    if (role === 'both') return null
    throw configError(
      'connector',
      'missing',
      `a ${role === 'producer' ? 'prefill' : 'decode'} engine needs one; use connector pull, push or xavier`,
    )
  }
  const { engineId, sideChannelPort, path, ipcCtas } = options
  const fileChannel = file['sideChannel'] as Readonly<Record<string, unknown>> | undefined
  const fileOptions = file['options'] as Readonly<Record<string, unknown>> | undefined
  return parseConfig({
    ...file,
    connector,
    role,
    ...(engineId === undefined ? {} : { engineId }),
    ...(path === undefined ? {} : { path }),
    ...(ipcCtas === undefined ? {} : { ipc: { ctaCount: ipcCtas } }),
    ...(sideChannelPort === undefined
      ? {}
      : { sideChannel: { ...fileChannel, port: sideChannelPort } }),
    ...(options.options === undefined ? {} : { options: { ...fileOptions, ...options.options } }),
  })
}

/**
 * Flags, file and defaults as one configuration of the core.
 * @throws ConnectorError ERR_KV_CONFIG naming field, value and remedy.
 */
export function resolveCoreConfig(options: EngineSettingOptions, incarnation: string): CoreConfig {
  const settings = resolveSettings(options)
  const kvferry = resolveConnectorConfig(options, settings.role)
  const engineId = kvferry?.engineId ?? options.engineId ?? `engine-${incarnation.slice(0, 8)}`
  if (!/^[A-Za-z0-9._-]{1,128}$/.test(engineId)) {
    throw configError(
      'engineId',
      show(engineId),
      'use 1 to 128 characters out of A-Z a-z 0-9 . _ -',
    )
  }
  const config = { engineId, incarnation, settings, kvferry }
  // A path that the KV can't take is refused here, before anything is started.
  ipcOf(config)
  return config
}
