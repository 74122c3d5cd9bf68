/**
 * Layouts of real models: what one token's KV looks like in memory, so that block sizes and descriptor
 * counts are real. One region per layer, K and V of a token packed side by side. `kvScale` divides the
 * head size and nothing else, so that a large model fits a small machine with all its descriptors.
 */
import { configError } from './config-error.ts'
import type { TimePresetName } from './time-model.ts'

export interface ModelPreset {
  readonly layerCount: number
  readonly kvHeadCount: number
  readonly headSize: number
  readonly dtype: 'bfloat16'
  readonly timePreset: TimePresetName
  /** Defaults for the pool and the longest sequence; flags override them. */
  readonly blockCount: number
  readonly maxModelLen: number
}

const qwen25Layout = {
  layerCount: 24,
  kvHeadCount: 2,
  headSize: 64,
  dtype: 'bfloat16',
  blockCount: 2_048,
  maxModelLen: 8_192,
} as const

const qwen3Layout = {
  layerCount: 64,
  kvHeadCount: 8,
  headSize: 128,
  dtype: 'bfloat16',
  blockCount: 512,
  maxModelLen: 32_768,
} as const

export const modelPresets = {
  /** 1 KiB a token: for tests and for the demo on two cores. */
  tiny: {
    layerCount: 4,
    kvHeadCount: 2,
    headSize: 32,
    dtype: 'bfloat16',
    timePreset: 'tiny',
    blockCount: 2_048,
    maxModelLen: 4_096,
  },
  /** 12 KiB a token. The times of both differ, the bytes don't. */
  'qwen2.5-0.5b': { ...qwen25Layout, timePreset: 'qwen2.5-0.5b' },
  'qwen2.5-0.5b-h200': { ...qwen25Layout, timePreset: 'qwen2.5-0.5b-h200' },
  /** 128 KiB a token: 1 GiB of KV memory at the default block count. */
  'llama-3.1-8b': {
    layerCount: 32,
    kvHeadCount: 8,
    headSize: 128,
    dtype: 'bfloat16',
    timePreset: 'llama-3.1-8b',
    blockCount: 512,
    maxModelLen: 8_192,
  },
  /** 256 KiB a token: 2 GiB at the default block count. The times of both differ, the bytes don't. */
  'qwen3-32b': { ...qwen3Layout, timePreset: 'qwen3-32b' },
  'qwen3-32b-warm': { ...qwen3Layout, timePreset: 'qwen3-32b-warm' },
} as const satisfies Record<string, ModelPreset>

export type ModelName = keyof typeof modelPresets
export const modelNames = Object.keys(modelPresets) as readonly ModelName[]

const bytesPerElement = 2
/** Kernels write and digest whole 8-byte words. */
export const wordSizeBytes = 8

export interface ModelShape {
  readonly name: ModelName
  readonly preset: ModelPreset
  readonly kvScale: number
  /** After division by `kvScale`. */
  readonly headSize: number
  /** K and V of one token in one layer. */
  readonly slotSizeBytes: number
}

/**
 * The scaled layout of one model.
 * @throws ConnectorError ERR_KV_CONFIG for an unknown name, or a scale that the head size can't take.
 */
export function resolveModel(name: string, kvScale: number): ModelShape {
  if (!Object.hasOwn(modelPresets, name)) {
    throw configError('model', `"${name}"`, `use one of ${modelNames.join(', ')}`)
  }
  const known = name as ModelName
  const preset: ModelPreset = modelPresets[known]
  const headSize = preset.headSize / kvScale
  const slotSizeBytes = 2 * preset.kvHeadCount * headSize * bytesPerElement
  if (!Number.isInteger(headSize) || headSize < 1 || slotSizeBytes % wordSizeBytes !== 0) {
    const remedy = `use a power of two that divides the head size ${preset.headSize} of ${name}`
    throw configError('kvScale', String(kvScale), remedy)
  }
  return { name: known, preset, kvScale, headSize, slotSizeBytes }
}
