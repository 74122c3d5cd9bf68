/**
 * The sweep: each point of the grid with each target in turn, in fresh processes, one result file a run.
 * What is there already is left alone; a run that can't be made is noted and the sweep goes on.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { StartCluster } from '../compare/cluster.ts'
import type { TrialContext } from '../compare/cluster-session.ts'
import type { Configuration } from '../compare/configuration.ts'
import { splitHalf } from '../compare/noise-floor.ts'
import { metricsOf } from '../compare/request-metrics.ts'
import { createRunEntry, isMetrics } from '../compare/run-entry.ts'
import { runTrial, type Trial } from '../compare/trial.ts'
import { assertMatchesSchema } from '../lib/result-schema.ts'
import { writeResult } from '../lib/result-file.ts'
import { safeName } from '../lib/safe-name.ts'
import { limits } from '../limits.ts'
import type { SweepConditions } from './conditions.ts'
import { pointName, pointsOf, type GridPoint } from './grid.ts'
import { createPointFile, findPointFiles, isPointFile, type PointFile } from './point-file.ts'
import { pointLine, renderPointLog } from './point-log.ts'
import { createPointSchedule } from './point-schedule.ts'
import { requestsAt, type SweepPreset } from './presets.ts'

/** What answers: a connector in engines of our own, or a server that is there. */
export interface SweepTarget {
  readonly label: string
  /** Null for a server given by URL. */
  readonly configuration: Configuration | null
  readonly url: string | null
  readonly startCluster: StartCluster
}

export interface SweepOptions {
  readonly preset: SweepPreset
  readonly seed: number
  readonly targets: readonly SweepTarget[]
  readonly resultsDirectory: string
  readonly prefixCaching: 'on' | 'off'
  readonly agent: 'nixl' | 'memory'
  readonly conditionsOf: (target: SweepTarget) => SweepConditions
  /** Runs points again that were outside the overrun guard. */
  readonly redoInvalid: boolean
  readonly isDetailed: boolean
}

export type SweepContext = Omit<
  TrialContext,
  'startCluster' | 'concurrencyMax' | 'requestDeadlineMs'
>

export interface SweepOutcome {
  /** Of this grid, made now or before, in the order of the grid. */
  readonly files: readonly PointFile[]
  readonly madeCount: number
  /** Runs that could not be made, and why. */
  readonly failures: readonly string[]
}

interface PlannedRun {
  readonly target: SweepTarget
  readonly point: GridPoint
  readonly name: string
}

function plannedRuns({ preset, targets }: SweepOptions): PlannedRun[] {
  return pointsOf(preset.grid, preset.iterations).flatMap((point) =>
    targets.map((target) => ({ target, point, name: pointName(target.label, point) })),
  )
}

/** Files that need not be made again. Whether they belong together was checked before. */
function existingFiles({ resultsDirectory, redoInvalid }: SweepOptions): Map<string, PointFile> {
  const files = new Map<string, PointFile>()
  for (const { name, content } of findPointFiles(resultsDirectory)) {
    if (!isPointFile(content)) continue
    if (redoInvalid && content.kvferry.valid === false) continue
    files.set(name, content)
  }
  return files
}

function fileOf(run: PlannedRun, trial: Trial, options: SweepOptions): PointFile {
  const { target, point } = run
  const { configuration, label, url } = target
  const metrics = trial.measured.records.map(metricsOf).filter(isMetrics)
  const entry = configuration
    ? createRunEntry(configuration, [trial], {
        point: {
          qps: point.qps,
          outputTokens: point.outputTokens,
          concurrency: limits.concurrencyMax,
        },
        agent: options.agent,
        prefixCaching: options.prefixCaching,
        oracleTexts: null,
      })
    : null
  const first = trial.records.find((record) => record.planned.phase === 'first')
  const kvferry = {
    schema: 'kvferry.sweep/1' as const,
    label,
    point,
    target: configuration ? ('engine' as const) : ('url' as const),
    url,
    valid: entry?.valid ?? null,
    conditions: options.conditionsOf(target),
    startUpMs: trial.startUpMs,
    firstRequestTtftMs: (first && metricsOf(first)?.ttftMs) ?? null,
    noiseFloor: splitHalf(label, metrics),
    run: entry,
  }
  const { isDetailed } = options
  return createPointFile(trial, trial.model, kvferry, { isDetailed, date: new Date() })
}

async function makeRun(
  run: PlannedRun,
  options: SweepOptions,
  context: SweepContext,
): Promise<PointFile> {
  const { preset, seed, prefixCaching } = options
  const { target, point } = run
  const { warmUpCount } = preset
  const requestCount = requestsAt(preset, point)
  const schedule = createPointSchedule({ seed, point, requestCount, warmUpCount })
  const hooks = target.configuration?.hooks ?? preset.engine.hooks
  const spec = {
    name: safeName(run.name),
    configuration: target.configuration,
    shape: { ...preset.engine, hooks },
    prefixCaching,
  }
  const trial = await runTrial(spec, schedule, {
    ...context,
    startCluster: target.startCluster,
    concurrencyMax: limits.concurrencyMax,
    requestDeadlineMs: limits.sweepRequestDeadlineMs,
  })
  const file = fileOf(run, trial, options)
  assertMatchesSchema('sweep', file)
  return file
}

/**
 * @throws the signal's reason when interrupted; Error when too many runs in a row can't be made. Files that
 *   were written stay, so that the same call goes on from there.
 */
export async function runSweep(
  options: SweepOptions,
  context: SweepContext,
): Promise<SweepOutcome> {
  const { resultsDirectory } = options
  const { progress, signal } = context
  const runs = plannedRuns(options)
  const existing = existingFiles(options)
  const files: PointFile[] = []
  const failures: string[] = []
  let madeCount = 0
  let failedInARow = 0
  for (const [index, run] of runs.entries()) {
    const found = existing.get(`${run.name}.json`)
    if (found) {
      files.push(found)
      continue
    }
    const path = join(resultsDirectory, run.name)
    try {
      const file = await makeRun(run, options, context)
      writeFileSync(`${path}.log`, renderPointLog(file))
      writeResult(`${path}.json`, file, { write: () => {} })
      files.push(file)
      madeCount++
      failedInARow = 0
      progress.note(`${index + 1}/${runs.length} ${pointLine(file)}`)
    } catch (error) {
      if (signal.aborted) throw error
      const text = error instanceof Error ? error.message : String(error)
      writeFileSync(`${path}.log`, `${run.name}: the run could not be made\n${text}\n`)
      failures.push(`${run.name}: ${text.split('\n')[0]}`)
      progress.note(`${index + 1}/${runs.length} ${run.name} FAILED: ${text.split('\n')[0]}`)
      if (++failedInARow >= limits.sweepFailuresInARowMax) {
        throw new Error(`${failedInARow} runs in a row could not be made; the last: ${text}`)
      }
    }
  }
  return { files, madeCount, failures }
}
