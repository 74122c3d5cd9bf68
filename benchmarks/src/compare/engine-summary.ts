/**
 * What the engines of one or more trials say about themselves, as sums and differences over the measured
 * phase, and the overrun guard. Pure.
 */
import type { EngineStats } from '@kvferry/reference-engine'
import { createDistribution, type Distribution } from '../lib/distribution.ts'
import { guard } from '../limits.ts'
import type { PerSide } from './result.ts'
import type { EngineObservation } from './cluster-session.ts'
import type { Trial } from './trial.ts'

type Side = keyof PerSide<unknown>

/** The oracle's engine does both; it is listed as the consumer, which ends the requests. */
const sideOf = (engine: EngineObservation): Side =>
  engine.role === 'producer' ? 'producer' : 'consumer'

/** One value per side; null where no engine (or no value) stands. */
export function perSide<T>(
  trials: readonly Trial[],
  combine: (engines: readonly EngineObservation[]) => T | null,
): PerSide<T> {
  const engines = trials.flatMap((trial) => trial.engines)
  const of = (side: Side): T | null => {
    const mine = engines.filter((engine) => sideOf(engine) === side)
    return mine.length === 0 ? null : combine(mine)
  }
  return { producer: of('producer'), consumer: of('consumer') }
}

type NumberKey = {
  [K in keyof EngineStats]: EngineStats[K] extends number ? K : never
}[keyof EngineStats]

/** Growth of one counter in the measured phase, summed. */
export function growth(engines: readonly EngineObservation[], key: NumberKey): number {
  return engines.reduce((sum, { before, after }) => sum + after[key] - before[key], 0)
}

export function overrunShareOf(engines: readonly EngineObservation[]): number {
  const modelledMs = growth(engines, 'modelledMs')
  return modelledMs > 0 ? growth(engines, 'overrunMs') / modelledMs : 0
}

/** Σ modelled step time / time of the measured phase: how much of it the modelled device was at work. */
export function utilisationOf(trial: Trial): PerSide<number> {
  const measuredMs = trial.measured.endedAtMs - trial.measured.startedAtMs
  return perSide([trial], (engines) =>
    measuredMs > 0 ? growth(engines, 'modelledMs') / (engines.length * measuredMs) : 0,
  )
}

/** Per side; null where nobody has a value. */
export function highest(values: readonly PerSide<number>[]): PerSide<number> {
  const of = (side: Side): number | null => {
    const known = values.map((each) => each[side]).filter((value) => value !== null)
    return known.length === 0 ? null : Math.max(...known)
  }
  return { producer: of('producer'), consumer: of('consumer') }
}

/** Whether the machine carried the load: otherwise the numbers describe the machine, not the protocol. */
export function isTrialValid(trial: Trial): boolean {
  return (
    trial.cpuBusy <= guard.cpuBusyMax &&
    trial.engines.every((engine) => overrunShareOf([engine]) <= guard.overrunShareMax)
  )
}

/** Rebuilt from the observations that engines keep; percentiles are never averaged. */
export function pooled(distributions: readonly Distribution[]): Distribution | null {
  const [only] = distributions
  if (distributions.length === 1 && only) return only
  return createDistribution(distributions.flatMap((each) => each.samples ?? []))
}

export function sumCounters(
  counters: readonly (Readonly<Record<string, number>> | null)[],
): Record<string, number> {
  const sums: Record<string, number> = {}
  for (const each of counters) {
    for (const [name, value] of Object.entries(each ?? {})) sums[name] = (sums[name] ?? 0) + value
  }
  return sums
}

export interface VerificationSummary {
  readonly blocksLoaded: number
  readonly blocksVerified: number
  readonly mismatchedBlocks: number
  /** Blocks that no one gave back before the settling time ended. */
  readonly blocksHeldAtEnd: number
  readonly bytesVerified: boolean
}

/**
 * Over the whole life of the processes: an unverified block in the warm-up is as bad as a later one.
 * `expectsLoads` is false for the oracle, which reads nothing from anywhere.
 */
export function verificationOf(
  trials: readonly Trial[],
  expectsLoads: boolean,
): VerificationSummary {
  const ends = trials.flatMap((trial) => trial.engines.map((engine) => engine.end))
  const sum = (read: (stats: EngineStats) => number): number =>
    ends.reduce((total, stats) => total + read(stats), 0)
  const blocksLoaded = sum((stats) => stats.verification.blocksLoaded)
  const isEveryBlockCovered = ends.every(
    ({ verification }) => verification.blocksVerified >= verification.blocksLoaded,
  )
  return {
    blocksLoaded,
    blocksVerified: sum((stats) => stats.verification.blocksVerified),
    mismatchedBlocks: sum((stats) => stats.verification.mismatchedBlocks),
    blocksHeldAtEnd: sum(({ blocks }) => blocks.owned + blocks.leased + blocks.quarantined),
    bytesVerified: isEveryBlockCovered && (expectsLoads ? blocksLoaded > 0 : true),
  }
}

export function memoryOf(trial: Trial): {
  deviceKv: number
  deviceHistory: number
  hostHistory: number
  slabs: number
  rss: number
} {
  const ends = trial.engines.map((engine) => engine.end)
  const sum = (key: keyof EngineStats['memoryBytes']): number =>
    ends.reduce((total, stats) => total + stats.memoryBytes[key], 0)
  return {
    deviceKv: sum('deviceKv'),
    deviceHistory: sum('deviceHistory'),
    hostHistory: sum('hostHistory'),
    slabs: sum('slabs'),
    rss: sum('rss'),
  }
}
