/**
 * Result files that may stand in one chart: ours, or those of `vllm bench serve --save-result`, with equal
 * grids and, where we know them, equal conditions. Reads the files; refuses what can't be compared.
 */
import { existsSync } from 'node:fs'
import { firstDifference } from '../sweep/conditions.ts'
import { pointKey, type GridPoint } from '../sweep/grid.ts'
import {
  findPointFiles,
  isPointFile,
  type FoundFile,
  type ServingFile,
} from '../sweep/point-file.ts'
import type { PointExtras } from '../sweep/point-file.ts'
import { UsageError } from '../usage-error.ts'

export interface ReportPoint {
  readonly fileName: string
  /** The series it belongs to: our label, or the mode in the file's name; beside ours, with `(vLLM)`. */
  readonly mode: string
  readonly point: GridPoint
  readonly file: ServingFile
  /** Null for a file that isn't ours. */
  readonly extras: PointExtras | null
}

export const metrics = ['ttft', 'tpot'] as const
export type Metric = (typeof metrics)[number]
export const statistics = ['mean', 'median', 'p99'] as const
export type Statistic = (typeof statistics)[number]

export function readNumber({ file, fileName }: ReportPoint, field: string): number {
  const value = file[field]
  if (typeof value === 'number' && Number.isFinite(value)) return value
  throw new UsageError(`${fileName}: ${field} is no number; was it made with --save-result?`)
}

function toReportPoint(found: FoundFile): ReportPoint {
  const { name, mode, point, content } = found
  if (content === null) throw new UsageError(`${name} is no JSON object; remove or repair it`)
  const extras = isPointFile(content) ? content.kvferry : null
  if (extras === null && 'kvferry' in content) {
    throw new UsageError(`${name} breaks sweep.schema.json; it was made by another version`)
  }
  return { fileName: name, mode: extras?.label ?? mode, point, file: content, extras }
}

/** vLLM's scripts and ours call a mode `push`: in one chart the two are two series. */
function toldApart(points: readonly ReportPoint[]): ReportPoint[] {
  if (!points.some(({ extras }) => extras !== null)) return [...points]
  return points.map((each) => (each.extras ? each : { ...each, mode: `${each.mode} (vLLM)` }))
}

const runKey = ({ point }: ReportPoint): string => `${pointKey(point)}_iter${point.iteration}`

/** Modes in the order in which they appear. */
export const modesOf = (points: readonly ReportPoint[]): string[] => [
  ...new Set(points.map(({ mode }) => mode)),
]

function assertEqualGrids(points: readonly ReportPoint[]): void {
  const byMode = modesOf(points).map((mode) => {
    const keys = points.filter((each) => each.mode === mode).map(runKey)
    const repeated = keys.find((key, index) => keys.indexOf(key) !== index)
    if (repeated !== undefined) throw new UsageError(`${mode} has ${repeated} twice`)
    return { mode, keys: new Set(keys) }
  })
  const all = new Set(byMode.flatMap(({ keys }) => [...keys]))
  for (const { mode, keys } of byMode) {
    const missing = [...all].filter((key) => !keys.has(key))
    if (missing.length === 0) continue
    const more = missing.length > 1 ? ` and ${missing.length - 1} more` : ''
    throw new UsageError(
      `the grids don't match: ${mode} lacks ${missing[0]}${more}; measure it, or leave ${mode} out`,
    )
  }
}

function assertEqualConditions(points: readonly ReportPoint[]): void {
  const ours = points.flatMap((each) =>
    each.extras ? [{ name: each.fileName, conditions: each.extras.conditions }] : [],
  )
  const [first, ...others] = ours
  if (!first) return
  for (const { name, conditions } of others) {
    const difference = firstDifference(conditions, first.conditions)
    if (difference === null) continue
    const { field, theirs, ours: firsts } = difference
    throw new UsageError(`${name}: ${field} is ${theirs}, but ${firsts} in ${first.name}`)
  }
}

/** @throws UsageError for a directory without results, and for results that can't be compared. */
export function loadPointSet(directories: readonly string[]): ReportPoint[] {
  const found = directories.flatMap((directory) => {
    if (!existsSync(directory)) {
      throw new UsageError(`--results-dir ${directory}: the directory does not exist`)
    }
    return findPointFiles(directory).map(toReportPoint)
  })
  const points = toldApart(found)
  if (points.length === 0) {
    throw new UsageError(
      `no result files named <mode>_qps<q>_in<in>_out<out>_iter<i>.json in ${directories.join(', ')}`,
    )
  }
  assertEqualGrids(points)
  assertEqualConditions(points)
  return points.sort(inGridOrder)
}

/** Files come in the order of their names, in which 16k is before 1k. */
function inGridOrder(a: ReportPoint, b: ReportPoint): number {
  const keys = ['outputTokens', 'inputTokens', 'qps', 'iteration'] as const
  const byMode = a.mode < b.mode ? -1 : a.mode > b.mode ? 1 : 0
  const differing = keys.find((key) => a.point[key] !== b.point[key])
  return byMode || (differing ? a.point[differing] - b.point[differing] : 0)
}

export interface PointValue {
  readonly value: number
  readonly isInvalid: boolean
}

/**
 * One number for all iterations of a point: the mean over all requests, or the median of the iterations'
 * percentiles (which are never averaged).
 */
export function combine(
  iterations: readonly ReportPoint[],
  read: (point: ReportPoint) => number | null,
  isMean: boolean,
): PointValue | null {
  const values = iterations.flatMap((each) => {
    const value = read(each)
    return value === null ? [] : [{ value, weight: each.file.completed }]
  })
  if (values.length === 0) return null
  const isInvalid = iterations.some(({ extras }) => extras?.valid === false)
  if (isMean) {
    const weight = values.reduce((sum, each) => sum + each.weight, 0)
    if (weight === 0) return null
    const sum = values.reduce((total, each) => total + each.value * each.weight, 0)
    return { value: sum / weight, isInvalid }
  }
  const sorted = values.map(({ value }) => value).sort((a, b) => a - b)
  return { value: sorted[Math.floor((sorted.length - 1) / 2)] as number, isInvalid }
}
