/**
 * Command-line flags of `sweep`, turned into checked values. Pure; says what is wrong in one line.
 */
import type { ConnectorChoice, Hooks, Posting } from '../compare/configuration.ts'
import type { EngineShape } from '../compare/presets.ts'
import { limits } from '../limits.ts'
import type { Grid } from '../sweep/grid.ts'
import { sweepPresets, type SweepPreset, type SweepPresetName } from '../sweep/presets.ts'
import type { Devices } from '../compare/process-cluster.ts'
import { UsageError } from '../usage-error.ts'
import { parseHooks } from './compare-options.ts'
import { parseConnectorList } from './connector-list.ts'
import { engineRanges } from './engine-flags.ts'
import {
  integerBetween,
  numberBetween,
  oneOf,
  parseConnectorOptions,
  parseDevices,
} from './flag-values.ts'

/** As commander hands them over. */
export interface SweepFlags {
  readonly connectors?: string
  readonly url: readonly string[]
  readonly preset: string
  readonly posting: string
  readonly option: readonly string[]
  readonly hooks?: string
  readonly resultsDir: string
  readonly qps?: string
  readonly inputLens?: string
  readonly outputLens?: string
  readonly iterations?: string
  readonly requests?: string
  readonly warmUp?: string
  readonly seed: string
  readonly model?: string
  readonly kvScale?: string
  readonly timeScale?: string
  readonly blockSize?: string
  readonly numBlocks?: string
  readonly blockOrder?: string
  readonly maxNumSeqs?: string
  readonly maxNumBatchedTokens?: string
  readonly maxModelLen?: string
  readonly prefixCaching: string
  readonly agent: string
  readonly readyTimeout?: string
  readonly redoInvalid?: boolean
  readonly saveDetailed?: boolean
  readonly json?: string
  readonly html?: string
  readonly keepLogs?: string
  readonly engineBin?: string
  readonly routerBin?: string
  readonly devices?: string
}

export interface UrlChoice {
  readonly label: string
  readonly url: string
}

export interface SweepRequest {
  /** Empty when only servers given by URL are measured. */
  readonly connectors: readonly ConnectorChoice[]
  readonly urls: readonly UrlChoice[]
  readonly posting: Posting
  readonly options: Readonly<Record<string, unknown>>
  readonly hooks: readonly Hooks[]
  readonly preset: SweepPreset
  readonly seed: number
  readonly resultsDirectory: string
  readonly prefixCaching: 'on' | 'off'
  readonly agent: 'nixl' | 'memory'
  readonly readyTimeoutMs: number
  readonly redoInvalid: boolean
  readonly isDetailed: boolean
  readonly json: string | null
  readonly html: string | null
  readonly logDirectory: string | null
  readonly engineBin: string | null
  readonly routerBin: string | null
  readonly debugEndpoints: false
  readonly devices: Devices | null
}

/** `1024,2k`: `k` is 1,024. */
function lengths(flag: string, text: string): number[] {
  return values(flag, text, (entry) => {
    const [, digits, suffix] = /^(\d+)(k?)$/.exec(entry) ?? []
    const whole = digits === undefined ? entry : String(Number(digits) * (suffix ? 1_024 : 1))
    return integerBetween(flag, whole, { min: 1, max: 262_144 })
  })
}

function values(flag: string, text: string, parse: (entry: string) => number): number[] {
  const entries = text.split(',').map((entry) => entry.trim())
  if (entries.length > limits.gridValuesMax) {
    throw new UsageError(`--${flag}: at most ${limits.gridValuesMax} values`)
  }
  if (entries.includes('')) throw new UsageError(`--${flag} "${text}": an entry is empty`)
  const parsed = entries.map(parse)
  const repeated = parsed.find((value, index) => parsed.indexOf(value) !== index)
  if (repeated !== undefined) throw new UsageError(`--${flag} ${text}: ${repeated} is there twice`)
  return parsed
}

function parseGrid(flags: SweepFlags, grid: Grid): Grid {
  const rate = (entry: string): number => numberBetween('qps', entry, { min: 0.01, max: 100_000 })
  return {
    qps: flags.qps === undefined ? grid.qps : values('qps', flags.qps, rate),
    inputTokens:
      flags.inputLens === undefined ? grid.inputTokens : lengths('input-lens', flags.inputLens),
    outputTokens:
      flags.outputLens === undefined ? grid.outputTokens : lengths('output-lens', flags.outputLens),
  }
}

type Counted =
  'kvScale' | 'blockSize' | 'numBlocks' | 'maxNumSeqs' | 'maxNumBatchedTokens' | 'maxModelLen'
const flagNames = {
  kvScale: 'kv-scale',
  blockSize: 'block-size',
  numBlocks: 'num-blocks',
  maxNumSeqs: 'max-num-seqs',
  maxNumBatchedTokens: 'max-num-batched-tokens',
  maxModelLen: 'max-model-len',
} as const satisfies Readonly<Record<Counted, keyof typeof engineRanges>>

/** Whether the model exists, and can be scaled so, is judged where an engine is to be started. */
function parseEngine(flags: SweepFlags, engine: EngineShape): EngineShape {
  const counted = (key: Counted, preset: number): number => {
    const text = flags[key]
    if (text === undefined) return preset
    const flag = flagNames[key]
    return integerBetween(flag, text, engineRanges[flag])
  }
  const { timeScale } = flags
  const { blockOrder, ...others } = engine
  const order = flags.blockOrder ?? blockOrder ?? 'sequential'
  const isScattered = oneOf('block-order', order, ['sequential', 'scattered']) === 'scattered'
  return {
    ...others,
    ...(isScattered ? { blockOrder: 'scattered' as const } : {}),
    model: flags.model ?? engine.model,
    kvScale: counted('kvScale', engine.kvScale),
    timeScale:
      timeScale === undefined
        ? engine.timeScale
        : numberBetween('time-scale', timeScale, engineRanges['time-scale']),
    blockTokens: counted('blockSize', engine.blockTokens),
    blockCount: counted('numBlocks', engine.blockCount),
    maxNumSeqs: counted('maxNumSeqs', engine.maxNumSeqs),
    maxNumBatchedTokens: counted('maxNumBatchedTokens', engine.maxNumBatchedTokens),
    maxModelLen: counted('maxModelLen', engine.maxModelLen),
  }
}

function checkFits({ grid, engine }: SweepPreset): void {
  const longest = Math.max(...grid.inputTokens) + Math.max(...grid.outputTokens)
  if (longest > engine.maxModelLen) {
    throw new UsageError(
      `--input-lens: ${longest} tokens with the output exceed --max-model-len ${engine.maxModelLen}; raise it`,
    )
  }
  const capacity = engine.blockCount * engine.blockTokens
  if (engine.maxModelLen <= capacity) return
  throw new UsageError(
    `--num-blocks ${engine.blockCount}: blocks of ${engine.blockTokens} tokens hold ${capacity}, less than --max-model-len ${engine.maxModelLen}`,
  )
}

function parsePreset(flags: SweepFlags): SweepPreset {
  const names = Object.keys(sweepPresets) as SweepPresetName[]
  const preset: SweepPreset = sweepPresets[oneOf('preset', flags.preset, names)]
  const count = (flag: string, text: string | undefined, fallback: number, max: number): number =>
    text === undefined ? fallback : integerBetween(flag, text, { min: 1, max })
  const result = {
    ...preset,
    grid: parseGrid(flags, preset.grid),
    iterations: count('iterations', flags.iterations, preset.iterations, limits.iterationsMax),
    requestCount: count('requests', flags.requests, preset.requestCount, limits.requestsMax),
    warmUpCount: count('warm-up', flags.warmUp, preset.warmUpCount, limits.requestsMax),
    engine: parseEngine(flags, preset.engine),
  }
  checkFits(result)
  return result
}

function parseUrl(text: string): UrlChoice {
  const [, label, address] = /^([A-Za-z0-9._-]+)=(.+)$/.exec(text) ?? []
  const remedy = 'write LABEL=URL, for example push=http://127.0.0.1:8000'
  if (label === undefined || address === undefined || !URL.canParse(address)) {
    throw new UsageError(`--url ${text}: ${remedy}`)
  }
  if (!/^https?:$/.test(new URL(address).protocol)) {
    throw new UsageError(`--url ${text}: ${remedy}`)
  }
  // The name that other tools want for the same server.
  return { label, url: address.replace(/\/+$/, '').replace(/\/v1$/, '') }
}

/** @throws UsageError. */
export function parseSweepFlags(flags: SweepFlags): SweepRequest {
  const isConnectorWanted = flags.connectors !== undefined || flags.url.length === 0
  const preset = parsePreset(flags)
  const readyTimeout = flags.readyTimeout ?? String(limits.urlReadyTimeoutMs / 1_000)
  return {
    connectors: isConnectorWanted ? parseConnectorList(flags.connectors ?? 'pull,push') : [],
    urls: flags.url.map(parseUrl),
    posting: oneOf('posting', flags.posting, ['both', 'background', 'inline']),
    options: parseConnectorOptions(flags.option),
    hooks: parseHooks(flags.hooks ?? preset.engine.hooks),
    preset,
    seed: integerBetween('seed', flags.seed, { min: 0, max: Number.MAX_SAFE_INTEGER }),
    resultsDirectory: flags.resultsDir,
    prefixCaching: oneOf('prefix-caching', flags.prefixCaching, ['on', 'off']),
    agent: oneOf('agent', flags.agent, ['nixl', 'memory']),
    readyTimeoutMs: 1_000 * numberBetween('ready-timeout', readyTimeout, { min: 1, max: 86_400 }),
    redoInvalid: flags.redoInvalid === true,
    isDetailed: flags.saveDetailed === true,
    json: flags.json ?? null,
    html: flags.html ?? null,
    logDirectory: flags.keepLogs ?? null,
    engineBin: flags.engineBin ?? null,
    routerBin: flags.routerBin ?? null,
    debugEndpoints: false,
    devices: parseDevices(flags.devices),
  }
}
