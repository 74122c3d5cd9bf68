/**
 * Flags that `reuse` and `load` share, turned into checked values. Pure; says what is wrong in one line.
 */
import { ConnectorError } from '@kvferry/connector-api'
import type { ConnectorChoice, ConfigurationRequest } from '../compare/configuration.ts'
import type { EngineShape } from '../compare/presets.ts'
import { blockSizeBytes } from '../experiments/budget.ts'
import { UsageError } from '../usage-error.ts'
import { parseConnectorList } from './connector-list.ts'
import {
  integerBetween,
  numberBetween,
  oneOf,
  parseConnectorOptions,
  parseDevices,
} from './flag-values.ts'
import type { MeasuredRequest } from './measured-command.ts'

/** As commander hands them over. */
export interface ExperimentFlags {
  readonly connectors: string
  readonly preset: string
  readonly option: readonly string[]
  readonly hooks: string
  readonly seed: string
  readonly agent: string
  readonly model?: string
  readonly kvScale?: string
  readonly timeScale?: string
  readonly numBlocks?: string
  readonly json?: string
  readonly html?: string
  readonly keepLogs?: string
  readonly engineBin?: string
  readonly routerBin?: string
  readonly devices?: string
}

export interface ExperimentRequest extends MeasuredRequest {
  readonly connectors: readonly ConnectorChoice[]
  /** For `configurationsOf`. */
  readonly configurations: ConfigurationRequest
  readonly seed: number
}

/** @throws UsageError. */
export function parseExperimentFlags(flags: ExperimentFlags): ExperimentRequest {
  const connectors = parseConnectorList(flags.connectors)
  return {
    connectors,
    configurations: {
      connectors,
      // The published experiments ran each connector as it is; variants are spelt out.
      posting: 'background',
      options: parseConnectorOptions(flags.option),
      hooks: [oneOf('hooks', flags.hooks, ['after-launch', 'additive'])],
    },
    seed: integerBetween('seed', flags.seed, { min: 0, max: Number.MAX_SAFE_INTEGER }),
    agent: oneOf('agent', flags.agent, ['nixl', 'memory']),
    json: flags.json ?? null,
    html: flags.html ?? null,
    logDirectory: flags.keepLogs ?? null,
    engineBin: flags.engineBin ?? null,
    routerBin: flags.routerBin ?? null,
    debugEndpoints: false,
    devices: parseDevices(flags.devices),
  }
}

/** The preset's engine with what the flags say instead; its scale is its model's. @throws UsageError. */
export function parseShape(flags: ExperimentFlags, preset: EngineShape): EngineShape {
  const { model, kvScale, timeScale, numBlocks } = flags
  const isOther = model !== undefined && model !== preset.model
  const whole = (flag: string, text: string | undefined, min: number, otherwise: number): number =>
    text === undefined ? otherwise : integerBetween(flag, text, { min, max: 1_048_576 })
  const shape: EngineShape = {
    ...preset,
    model: model ?? preset.model,
    kvScale: whole('kv-scale', kvScale, 1, isOther ? 1 : preset.kvScale),
    timeScale:
      timeScale === undefined
        ? preset.timeScale
        : numberBetween('time-scale', timeScale, { min: 0.01, max: 1_000 }),
    blockCount: whole('num-blocks', numBlocks, 64, preset.blockCount),
  }
  try {
    blockSizeBytes(shape)
  } catch (error) {
    if (!ConnectorError.isInstance(error)) throw error
    throw new UsageError(`${error.code}: ${error.message}`)
  }
  return shape
}
