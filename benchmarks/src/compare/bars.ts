/**
 * The bars of a comparison: what push gains over pull and may not lose, what sending in chunks gains over
 * sending at the end, and that this build is no worse than another. Each speaks of one run, or of two that differ in nothing else. Pure.
 */
import { resolveModel } from '@kvferry/reference-engine'
import {
  atMost,
  atMostBesideNoise,
  below,
  unlessInvalid,
  withoutVerdict,
  type Bar,
} from '../experiments/bar.ts'
import { percentText } from '../lib/percent-text.ts'
import { utilisationMax } from '../limits.ts'
import type { EngineShape } from './presets.ts'
import type { NoiseFloor, RunEntry, Workload } from './result.ts'

export const compareLimits = {
  /** End of the prefill → first post, as a share of pull's. */
  firstPostOfInline: 1 / 5,
  firstPostOfBackground: 1 / 2,
  /** D's engine thread inside transfer work, as a share of inline pull's. */
  blockedOfInline: 1 / 5,
  pathLessWireMs: 1,
  /** Bytes on the critical path, in chunks' worth; of a prompt of at least so many chunks. */
  criticalChunks: 1.5,
  chunksMin: 8,
} as const

export interface BarSurroundings {
  readonly agent: 'nixl' | 'memory'
  /** Of the measured requests. */
  readonly promptTokens: Workload['promptTokens']
  readonly engine: Pick<EngineShape, 'model' | 'kvScale' | 'maxNumBatchedTokens'>
  readonly noise: NoiseFloor
}

const ratio = (a: number | null, b: number | null): number | null =>
  a === null || b === null || b <= 0 ? null : a / b
const shown = (value: number | null, unit: string): string =>
  value === null ? '–' : `${value.toFixed(value >= 100 ? 0 : 2)} ${unit}`

const isPull = ({ connector }: RunEntry): boolean => connector === 'pull'
const isPush = ({ connector }: RunEntry): boolean => connector === 'push'
const isInline = ({ options }: RunEntry): boolean => options['posting'] === 'inline'
const isProgressive = ({ options }: RunEntry): boolean => options['progressive'] === true

/** Everything but the connector and the option that is compared. */
const isAlike = (a: RunEntry, b: RunEntry): boolean =>
  a.hooks === b.hooks && a.options['path'] === b.options['path']

const busiest = ({ utilisation: { producer, consumer } }: RunEntry): number =>
  Math.max(producer ?? 0, consumer ?? 0)

/** What the runs can't decide stays open, and says why. */
function judged(
  bars: readonly Bar[],
  runs: readonly RunEntry[],
  { agent }: BarSurroundings,
): Bar[] {
  const busy = runs.filter((run) => busiest(run) > utilisationMax)
  const texts = busy.map((run) => `${run.label} ${percentText(busiest(run))}`)
  const reasons = [
    ...(agent === 'memory' ? ['in-memory agent: one event loop does the work of all'] : []),
    ...(busy.length > 0
      ? [`an engine busy for more than ${percentText(utilisationMax)}: ${texts.join(', ')}`]
      : []),
  ]
  return reasons.reduce(withoutVerdict, unlessInvalid(bars, runs))
}

const latencyNames = {
  ttftMs: 'TTFT',
  tpotMs: 'TPOT',
  criticalPathMs: 'KV critical path',
} as const
type Latency = keyof typeof latencyNames

function noWorseBar(other: RunEntry, run: RunEntry, metric: Latency, noise: NoiseFloor): Bar {
  const theirs = other[metric].p50
  return atMostBesideNoise(
    {
      subject: run.label,
      rule: `${latencyNames[metric]} p50 not worse than ${other.label}'s beyond noise`,
      note: `ms; ${other.label} ${shown(theirs, 'ms')}`,
    },
    run[metric].p50,
    theirs,
    noise.metrics[`${metric}.p50`]?.relativeDifference ?? null,
  )
}

/** Of short prompts only: long ones are where push gains, and this is about what it may not lose. */
function lightBars(pull: RunEntry, run: RunEntry, surroundings: BarSurroundings): Bar[] {
  const { promptTokens, engine, noise } = surroundings
  if (Math.max(...promptTokens) > engine.maxNumBatchedTokens) return []
  return (['ttftMs', 'tpotMs'] as const).map((metric) => noWorseBar(pull, run, metric, noise))
}

function firstPostBar(pull: RunEntry, run: RunEntry): Bar {
  const limit = isInline(pull)
    ? compareLimits.firstPostOfInline
    : compareLimits.firstPostOfBackground
  const [ours, theirs] = [run.firstPostMs.p50, pull.firstPostMs.p50]
  return atMost(
    {
      subject: run.label,
      rule: `prefill's end → first post, p50, at most 1/${1 / limit} of ${pull.label}'s`,
      note: `${shown(ours, 'ms')} of ${shown(theirs, 'ms')}`,
    },
    ratio(ours, theirs),
    limit,
  )
}

const blockedParts = {
  total: 'by transfer work',
  descriptors: 'by descriptor work',
  copy: 'by the copy',
} as const

function blockedBars(inline: RunEntry, run: RunEntry): Bar[] {
  return (['total', 'descriptors', 'copy'] as const).map((part) => {
    const [ours, theirs] = [run.blockedUs[part].p50, inline.blockedUs[part].p50]
    const isCopied = part === 'copy' && theirs !== null && theirs > 0
    const where = isCopied ? `; ${inline.label} copies inside its post` : ''
    return atMost(
      {
        subject: run.label,
        rule: `D's thread blocked ${blockedParts[part]}, p50, at most 1/5 of ${inline.label}'s`,
        note: `${shown(ours, 'µs')} of ${shown(theirs, 'µs')}${where}`,
      },
      ratio(ours, theirs),
      compareLimits.blockedOfInline,
    )
  })
}

/** A trade, not a gain: the name of a bar is what has to hold of it. */
function heldBars(pull: RunEntry, run: RunEntry): Bar[] {
  const [ours, theirs] = [run.blockSecondsHeld, pull.blockSecondsHeld]
  const note = 'block-seconds'
  return [
    below(
      { subject: run.label, rule: `P holds blocks for less long than with ${pull.label}`, note },
      ours.producer,
      theirs.producer,
    ),
    below(
      { subject: pull.label, rule: `D holds blocks for less long than with ${run.label}`, note },
      theirs.consumer,
      ours.consumer,
    ),
  ]
}

const pullBars = (pull: RunEntry, run: RunEntry, surroundings: BarSurroundings): Bar[] => [
  ...lightBars(pull, run, surroundings),
  firstPostBar(pull, run),
  ...(isInline(pull) ? blockedBars(pull, run) : []),
  ...heldBars(pull, run),
]

const pathBar = (run: RunEntry): Bar =>
  atMost(
    {
      subject: run.label,
      rule: 'KV critical path without the wire, p50, at most 1 ms',
      note: `ms; with it ${shown(run.criticalPathMs.p50, 'ms')}`,
    },
    run.pathLessWireMs.p50,
    compareLimits.pathLessWireMs,
  )

function criticalBytesBar(run: RunEntry, { promptTokens, engine }: BarSurroundings): Bar {
  const { preset, slotSizeBytes } = resolveModel(engine.model, engine.kvScale)
  const chunkTokens = engine.maxNumBatchedTokens
  const chunkBytes = chunkTokens * preset.layerCount * slotSizeBytes
  const chunks = Math.ceil(Math.min(...promptTokens) / chunkTokens)
  const hasEnough = chunks >= compareLimits.chunksMin
  const measured = `${shown(run.criticalBytes.p50, 'B')}, a chunk has ${chunkBytes} B`
  return atMost(
    {
      subject: run.label,
      rule: "bytes on the critical path, p50, at most 1.5 chunks' worth",
      note: hasEnough
        ? `${measured}; prompts of ${chunks} chunks or more`
        : `the shortest prompt has ${chunks} chunks, ${compareLimits.chunksMin} are wanted`,
    },
    hasEnough ? ratio(run.criticalBytes.p50, chunkBytes) : null,
    compareLimits.criticalChunks,
  )
}

function pushBars(run: RunEntry, runs: readonly RunEntry[], surroundings: BarSurroundings): Bar[] {
  const alike = runs.filter((other) => isAlike(other, run))
  const pulls = [true, false].flatMap(
    (wanted) => alike.find((other) => isPull(other) && isInline(other) === wanted) ?? [],
  )
  const plain = alike.find((other) => isPush(other) && !isProgressive(other))
  const alone = [pathBar(run), ...(isProgressive(run) ? [criticalBytesBar(run, surroundings)] : [])]
  const atEnd =
    plain && isProgressive(run) ? [noWorseBar(plain, run, 'ttftMs', surroundings.noise)] : []
  return [
    ...pulls.flatMap((pull) =>
      judged(pullBars(pull, run, surroundings), [pull, run], surroundings),
    ),
    ...judged(alone, [run], surroundings),
    ...judged(atEnd, plain ? [plain, run] : [], surroundings),
  ]
}

const isSameChoice = (a: RunEntry, b: RunEntry): boolean =>
  a.connector === b.connector &&
  a.hooks === b.hooks &&
  JSON.stringify(a.options) === JSON.stringify(b.options)

/** The same by another build's programs, where those ran beside it. */
function buildBars(run: RunEntry, runs: readonly RunEntry[], surroundings: BarSurroundings): Bar[] {
  const other = runs.find((each) => each.build !== null && isSameChoice(each, run))
  if (!other) return []
  const metrics = ['ttftMs', 'tpotMs', 'criticalPathMs'] as const
  const bars = metrics.map((metric) => noWorseBar(other, run, metric, surroundings.noise))
  return judged(bars, [other, run], surroundings)
}

/** Empty where neither push ran nor another build. Another build's runs are measured against, and not judged. */
export function compareBars(runs: readonly RunEntry[], surroundings: BarSurroundings): Bar[] {
  const own = runs.filter(({ build }) => build === null)
  return [
    ...own.filter(isPush).flatMap((run) => pushBars(run, own, surroundings)),
    ...own.flatMap((run) => buildBars(run, runs, surroundings)),
  ]
}
