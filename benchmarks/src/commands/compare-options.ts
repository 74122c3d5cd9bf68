/**
 * Command-line flags of `compare`, turned into checked values. Pure; says what is wrong in one line.
 */
import { limits } from '../limits.ts'
import type { Posting } from '../compare/configuration.ts'
import { presets, type Preset, type PresetName } from '../compare/presets.ts'
import { UsageError } from '../usage-error.ts'

/** As commander hands them over. */
export interface CompareFlags {
  readonly connectors: string
  readonly preset: string
  readonly posting: string
  readonly option: readonly string[]
  readonly seed: string
  readonly requests?: string
  readonly qps?: string
  readonly agent?: string
  readonly demo?: boolean
  readonly prefixCaching: string
  readonly json?: string
  readonly keepLogs?: string
  readonly engineBin?: string
  readonly routerBin?: string
  readonly debugEndpoints?: boolean
}

export interface CompareRequest {
  readonly connectors: readonly string[]
  readonly posting: Posting
  readonly options: Readonly<Record<string, unknown>>
  readonly preset: Preset
  readonly seed: number
  readonly agent: 'nixl' | 'memory' | 'auto'
  readonly prefixCaching: 'on' | 'off'
  readonly json: string | null
  readonly logDirectory: string | null
  readonly engineBin: string | null
  readonly routerBin: string | null
  readonly debugEndpoints: boolean
}

function oneOf<T extends string>(flag: string, value: string, allowed: readonly T[]): T {
  if ((allowed as readonly string[]).includes(value)) return value as T
  throw new UsageError(`--${flag} ${value}: use one of ${allowed.join(', ')}`)
}

function numberBetween(flag: string, text: string, range: { min: number; max: number }): number {
  const value = Number(text)
  if (text.trim() !== '' && Number.isFinite(value) && value >= range.min && value <= range.max) {
    return value
  }
  throw new UsageError(`--${flag} ${text}: use a number from ${range.min} to ${range.max}`)
}

function integerBetween(flag: string, text: string, range: { min: number; max: number }): number {
  const value = numberBetween(flag, text, range)
  if (Number.isInteger(value)) return value
  throw new UsageError(`--${flag} ${text}: use a whole number`)
}

/** `key=value`; the value is JSON where it parses as such, else the text itself. */
export function parseConnectorOptions(pairs: readonly string[]): Record<string, unknown> {
  const options: Record<string, unknown> = {}
  for (const pair of pairs) {
    const at = pair.indexOf('=')
    if (at < 1) throw new UsageError(`--option ${pair}: use key=value`)
    const text = pair.slice(at + 1)
    try {
      options[pair.slice(0, at)] = JSON.parse(text) as unknown
    } catch {
      options[pair.slice(0, at)] = text
    }
  }
  return options
}

function parseConnectors(text: string): string[] {
  const names = text.split(',').map((name) => name.trim())
  if (names.some((name) => name === '')) {
    throw new UsageError(`--connectors "${text}": name at least one, separated by commas`)
  }
  if (new Set(names).size !== names.length) {
    throw new UsageError(`--connectors ${text}: each connector once`)
  }
  return names
}

function parseAgent(flags: CompareFlags): CompareRequest['agent'] {
  const agent = oneOf('agent', flags.agent ?? (flags.demo ? 'auto' : 'nixl'), [
    'nixl',
    'memory',
    'auto',
  ])
  if (agent === 'auto' && !flags.demo) {
    throw new UsageError('--agent auto is for --demo only: nothing else falls back from NIXL')
  }
  return agent
}

function parsePreset(flags: CompareFlags): Preset {
  const preset = presets[oneOf('preset', flags.preset, Object.keys(presets) as PresetName[])]
  return {
    ...preset,
    requestCount:
      flags.requests === undefined
        ? preset.requestCount
        : integerBetween('requests', flags.requests, { min: 1, max: limits.requestsMax }),
    qps:
      flags.qps === undefined
        ? preset.qps
        : numberBetween('qps', flags.qps, { min: 0.01, max: 100_000 }),
  }
}

/** @throws UsageError. */
export function parseCompareFlags(flags: CompareFlags): CompareRequest {
  return {
    connectors: parseConnectors(flags.connectors),
    posting: oneOf('posting', flags.posting, ['both', 'background', 'inline']),
    options: parseConnectorOptions(flags.option),
    preset: parsePreset(flags),
    seed: integerBetween('seed', flags.seed, { min: 0, max: Number.MAX_SAFE_INTEGER }),
    agent: parseAgent(flags),
    prefixCaching: oneOf('prefix-caching', flags.prefixCaching, ['on', 'off']),
    json: flags.json ?? null,
    logDirectory: flags.keepLogs ?? null,
    engineBin: flags.engineBin ?? null,
    routerBin: flags.routerBin ?? null,
    debugEndpoints: flags.debugEndpoints === true,
  }
}
