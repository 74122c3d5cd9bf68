/**
 * One result file of a sweep: the fields of `vllm bench serve --save-result`, and everything else that we
 * know of the run under `kvferry`. Building is pure; reading says why a file can't be used.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { NoiseFloor, RunEntry } from '../compare/result.ts'
import type { Trial } from '../compare/trial.ts'
import { assertMatchesSchema } from '../lib/result-schema.ts'
import type { SweepConditions } from './conditions.ts'
import { parsePointName, type GridPoint } from './grid.ts'
import { detailedMetrics, servingMetrics } from './serving-metrics.ts'

/** What charts need; vLLM's own files have at least these. */
export interface ServingFile {
  readonly completed: number
  readonly duration: number
  readonly [field: string]: unknown
}

export interface PointExtras {
  readonly schema: 'kvferry.sweep/1'
  readonly label: string
  readonly point: GridPoint
  readonly target: 'engine' | 'url'
  readonly url: string | null
  /** Inside the overrun guard; null for servers whose steps we can't see. */
  readonly valid: boolean | null
  readonly conditions: SweepConditions
  readonly startUpMs: number
  /** The lone first request of fresh processes, which pays for the handshake. */
  readonly firstRequestTtftMs: number | null
  readonly noiseFloor: NoiseFloor
  /** As an entry of `compare`'s `runs`; null for servers given by URL. */
  readonly run: RunEntry | null
}

export interface PointFile extends ServingFile {
  readonly label: string
  readonly kvferry: PointExtras
}

/** `20261130-062104`, as vLLM writes it. */
const dateText = (date: Date): string =>
  date.toISOString().replaceAll(/[-:]/g, '').replace('T', '-').slice(0, 15)

export function createPointFile(
  trial: Trial,
  model: string,
  kvferry: PointExtras,
  options: { readonly isDetailed: boolean; readonly date: Date },
): PointFile {
  const { point, label } = kvferry
  return {
    date: dateText(options.date),
    endpoint_type: 'openai',
    backend: 'openai',
    label,
    model_id: model,
    tokenizer_id: model,
    num_prompts: trial.measured.records.length,
    request_rate: point.qps,
    burstiness: 1,
    max_concurrency: null,
    request_goodput: null,
    ...(servingMetrics(trial.measured) as { completed: number; duration: number }),
    ...(options.isDetailed ? detailedMetrics(trial.measured) : {}),
    kvferry,
  }
}

export interface FoundFile {
  readonly name: string
  readonly mode: string
  readonly point: GridPoint
  /** Null when the file is no JSON object. */
  readonly content: ServingFile | null
}

/** Every file of the directory that is named like a point, in the order of their names. */
export function findPointFiles(directory: string): FoundFile[] {
  return readdirSync(directory)
    .sort()
    .flatMap((name) => {
      const parsed = parsePointName(name)
      return parsed ? [{ name, ...parsed, content: readObject(join(directory, name)) }] : []
    })
}

function readObject(path: string): ServingFile | null {
  try {
    const value: unknown = JSON.parse(readFileSync(path, 'utf8'))
    return typeof value === 'object' && value !== null ? (value as ServingFile) : null
  } catch {
    return null
  }
}

/** Whether the file is one of ours, whole. Cut short, or by an older schema, it is as good as absent. */
export function isPointFile(content: ServingFile | null): content is PointFile {
  if (content === null || !('kvferry' in content)) return false
  try {
    assertMatchesSchema('sweep', content)
    return true
  } catch {
    return false
  }
}
