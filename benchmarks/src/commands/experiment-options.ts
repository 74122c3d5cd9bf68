/**
 * Flags that `reuse` and `load` share, turned into checked values. Pure; says what is wrong in one line.
 */
import type { ConnectorChoice, ConfigurationRequest } from '../compare/configuration.ts'
import type { EngineShape } from '../compare/presets.ts'
import { parseConnectorList } from './connector-list.ts'
import { assertModel, engineRanges } from './engine-flags.ts'
import {
  integerBetween,
  numberBetween,
  oneOf,
  parseConnectorOptions,
  parseDevices,
  type Range,
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

/**
 * The preset's engine with what the flags say instead; its scale is its model's. `blockCounts`: with which it serves
 * the experiment's requests.
 * @throws UsageError.
 */
export function parseShape(
  flags: ExperimentFlags,
  preset: EngineShape,
  blockCounts: Range,
): EngineShape {
  const { model, kvScale, timeScale, numBlocks } = flags
  const isOther = model !== undefined && model !== preset.model
  const whole = (
    flag: string,
    text: string | undefined,
    range: Range,
    otherwise: number,
  ): number => (text === undefined ? otherwise : integerBetween(flag, text, range))
  const shape: EngineShape = {
    ...preset,
    model: model ?? preset.model,
    kvScale: whole('kv-scale', kvScale, engineRanges['kv-scale'], isOther ? 1 : preset.kvScale),
    timeScale:
      timeScale === undefined
        ? preset.timeScale
        : numberBetween('time-scale', timeScale, engineRanges['time-scale']),
    blockCount: whole('num-blocks', numBlocks, blockCounts, preset.blockCount),
  }
  assertModel(shape)
  return shape
}
