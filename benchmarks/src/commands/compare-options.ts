/**
 * Command-line flags of `compare`, turned into checked values. Pure; says what is wrong in one line.
 */
import { limits } from '../limits.ts'
import type { ConnectorChoice, Hooks, Posting } from '../compare/configuration.ts'
import type { Devices } from '../compare/process-cluster.ts'
import { presets, type EngineShape, type Preset, type PresetName } from '../compare/presets.ts'
import { UsageError } from '../usage-error.ts'
import { parseConnectorList } from './connector-list.ts'
import { engineRanges } from './engine-flags.ts'
import {
  integerBetween,
  numberBetween,
  oneOf,
  parseConnectorOptions,
  parseDevices,
  type Range,
} from './flag-values.ts'

/** As commander hands them over. */
export interface CompareFlags {
  readonly connectors: string
  readonly preset: string
  readonly posting: string
  readonly option: readonly string[]
  readonly path?: string
  readonly hooks: string
  readonly seed: string
  readonly requests?: string
  readonly qps?: string
  readonly inputTokens?: string
  readonly maxNumBatchedTokens?: string
  readonly maxModelLen?: string
  readonly agent?: string
  readonly demo?: boolean
  readonly prefixCaching: string
  readonly json?: string
  readonly html?: string
  readonly keepLogs?: string
  readonly engineBin?: string
  readonly routerBin?: string
  readonly debugEndpoints?: boolean
  readonly devices?: string
  readonly against?: string
}

export interface CompareRequest {
  readonly connectors: readonly ConnectorChoice[]
  readonly posting: Posting
  readonly hooks: readonly Hooks[]
  readonly options: Readonly<Record<string, unknown>>
  readonly preset: Preset
  readonly seed: number
  readonly agent: 'nixl' | 'memory' | 'auto'
  readonly prefixCaching: 'on' | 'off'
  readonly json: string | null
  readonly html: string | null
  readonly logDirectory: string | null
  readonly engineBin: string | null
  readonly routerBin: string | null
  readonly debugEndpoints: boolean
  readonly devices: Devices | null
  /** Another checkout of this project, to run beside this one. */
  readonly against: string | null
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

/** Both are two configurations of each connector. @throws UsageError. */
export function parseHooks(text: string): Hooks[] {
  const hooks = oneOf('hooks', text, ['after-launch', 'additive', 'both'])
  return hooks === 'both' ? ['after-launch', 'additive'] : [hooks]
}

/** Each engine has room for a full step of the longest: 1 GiB of KV at the upper end. */
const modelLenRange: Range = { min: 2, max: 32_768 }
const inputRange: Range = { min: 1, max: 16_384 }

/** With the blocks that a full step of the longest sequences has in the preset. @throws UsageError. */
function parseEngine(flags: CompareFlags, preset: Preset, inputTokens: number | null): EngineShape {
  const { engine, outputTokens } = preset
  const longest = (inputTokens ?? 1) + outputTokens
  const maxModelLen =
    flags.maxModelLen === undefined
      ? Math.max(engine.maxModelLen, longest)
      : integerBetween('max-model-len', flags.maxModelLen, modelLenRange)
  if (maxModelLen < longest) {
    throw new UsageError(
      `--max-model-len ${maxModelLen}: prompts of ${longest - outputTokens} tokens and ${outputTokens} of output exceed it; raise it`,
    )
  }
  return {
    ...engine,
    maxModelLen,
    blockCount: Math.max(
      engine.blockCount,
      Math.ceil(maxModelLen / engine.blockTokens) * engine.maxNumSeqs,
    ),
    maxNumBatchedTokens:
      flags.maxNumBatchedTokens === undefined
        ? engine.maxNumBatchedTokens
        : integerBetween(
            'max-num-batched-tokens',
            flags.maxNumBatchedTokens,
            engineRanges['max-num-batched-tokens'],
          ),
  }
}

function parsePreset(flags: CompareFlags): Preset {
  const preset: Preset =
    presets[oneOf('preset', flags.preset, Object.keys(presets) as PresetName[])]
  const inputTokens =
    flags.inputTokens === undefined
      ? preset.inputTokens
      : integerBetween('input-tokens', flags.inputTokens, inputRange)
  return {
    ...preset,
    inputTokens,
    engine: parseEngine(flags, preset, inputTokens),
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

function parseAgainst({ against, agent, demo }: CompareFlags): string | null {
  if (against === undefined) return null
  if (agent !== 'memory' && !demo) return against
  throw new UsageError(
    `--against ${against}: another build runs in processes of its own, over NIXL`,
  )
}

/** @throws UsageError. */
export function parseCompareFlags(flags: CompareFlags): CompareRequest {
  return {
    connectors: parseConnectorList(flags.connectors),
    hooks: parseHooks(flags.hooks),
    posting: oneOf('posting', flags.posting, ['both', 'background', 'inline']),
    options: { ...(flags.path && { path: flags.path }), ...parseConnectorOptions(flags.option) },
    preset: parsePreset(flags),
    seed: integerBetween('seed', flags.seed, { min: 0, max: Number.MAX_SAFE_INTEGER }),
    agent: parseAgent(flags),
    prefixCaching: oneOf('prefix-caching', flags.prefixCaching, ['on', 'off']),
    json: flags.json ?? null,
    html: flags.html ?? null,
    logDirectory: flags.keepLogs ?? null,
    engineBin: flags.engineBin ?? null,
    routerBin: flags.routerBin ?? null,
    debugEndpoints: flags.debugEndpoints === true,
    devices: parseDevices(flags.devices),
    against: parseAgainst(flags),
  }
}
