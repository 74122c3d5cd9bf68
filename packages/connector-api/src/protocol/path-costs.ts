/**
 * `path: auto`, as a pure machine: which path a transfer to one peer takes, from what transfers to that peer
 * have cost. At first contact each path is tried, a few times each, with transfers that are due anyway;
 * what was measured is remembered for the peer's life. One machine for each size of pieces, since a copy costs
 * by the byte and a descriptor by the piece. Called by path-chooser.ts.
 *
 * Descriptors cost more with each piece than the other paths do, and less to begin with: where one number of
 * pieces goes by descriptors, fewer do, and where one goes by another path, more do. So between descriptors and the
 * others there is one threshold, which is looked for among powers of two; which of the others it is, is measured
 * wherever the threshold was looked for, and more pieces go as the nearest number that was measured.
 */
import type { AgentPath } from '../slabs.ts'
import { protocolLimits } from './limits.ts'

/** Transfers of one class and path whose costs are being compared. */
interface Trials {
  readonly begunCount: number
  /** Microseconds a piece; Infinity for one that failed. At most `pathTrialCount`. */
  readonly costs: readonly number[]
}

export interface PathCosts {
  /** Classes of pieces (log2 of their number) up to this one go by descriptors; -1: none yet. */
  readonly descriptorsUpTo: number
  /** What each class that was measured takes instead; more pieces than that take the same. By class. */
  readonly others: ReadonlyMap<number, AgentPath>
  /** Of the classes between the two, by class and path. */
  readonly trials: ReadonlyMap<number, ReadonlyMap<AgentPath, Trials>>
}

export const unmeasuredCosts: PathCosts = {
  descriptorsUpTo: -1,
  others: new Map(),
  trials: new Map(),
}

const untried: Trials = { begunCount: 0, costs: [] }

const classOf = (pieceCount: number): number => Math.floor(Math.log2(Math.max(1, pieceCount)))

/** The first class that doesn't go by descriptors; Infinity: none yet. */
export const othersFrom = ({ others }: PathCosts): number => Math.min(...others.keys())

/**
 * Which of `paths` that many pieces take: always the same ones, of which the first is `descriptors` where they are a choice.
 * While that isn't known the one that was tried least.
 */
export function choosePath(
  costs: PathCosts,
  pieceCount: number,
  paths: readonly AgentPath[],
): AgentPath {
  const at = classOf(pieceCount)
  if (at <= costs.descriptorsUpTo) return 'descriptors'
  const nearest = Math.max(...[...costs.others.keys()].filter((other) => other <= at))
  const known = costs.others.get(nearest)
  if (known !== undefined) return known
  const begunCount = (path: AgentPath) => costs.trials.get(at)?.get(path)?.begunCount ?? 0
  return paths.reduce((least, path) => (begunCount(path) < begunCount(least) ? path : least))
}

/** A transfer of that many pieces was posted on that path. */
export function beginTrial(costs: PathCosts, pieceCount: number, path: AgentPath): PathCosts {
  return change(costs, pieceCount, path, ({ begunCount, ...trials }) => ({
    ...trials,
    begunCount: begunCount + 1,
  }))
}

/** It took `us` microseconds from its post to its end; Infinity when it failed. */
export function endTrial(
  costs: PathCosts,
  pieceCount: number,
  path: AgentPath,
  us: number,
  paths: readonly AgentPath[],
): PathCosts {
  const measured = change(costs, pieceCount, path, ({ begunCount, costs: before }) => ({
    begunCount,
    costs: [...before, us / pieceCount].slice(0, protocolLimits.pathTrialCount),
  }))
  return decide(measured, classOf(pieceCount), paths)
}

function change(
  costs: PathCosts,
  pieceCount: number,
  path: AgentPath,
  to: (trials: Trials) => Trials,
): PathCosts {
  const at = classOf(pieceCount)
  // One that was under way when its class was decided changes nothing any more.
  if (at <= costs.descriptorsUpTo || at >= othersFrom(costs)) return costs
  const before = costs.trials.get(at) ?? new Map<AgentPath, Trials>()
  const changed = new Map(before).set(path, to(before.get(path) ?? untried))
  return { ...costs, trials: new Map(costs.trials).set(at, changed) }
}

function decide(costs: PathCosts, at: number, paths: readonly AgentPath[]): PathCosts {
  const trials = costs.trials.get(at)
  if (trials === undefined) return costs
  const costsOf = (path: AgentPath) => trials.get(path)?.costs ?? []
  if (paths.some((path) => costsOf(path).length < protocolLimits.pathTrialCount)) return costs
  const medianOf = (path: AgentPath) => median(costsOf(path))
  const best = paths.reduce((least, path) => (medianOf(path) < medianOf(least) ? path : least))
  const isDirect = best === 'descriptors'
  return {
    descriptorsUpTo: isDirect ? at : costs.descriptorsUpTo,
    others: isDirect ? costs.others : new Map(costs.others).set(at, best),
    trials: new Map([...costs.trials].filter(([other]) => (isDirect ? other > at : other < at))),
  }
}

/** Of an odd number of values: a single one that other work disturbed says nothing. */
const median = (values: readonly number[]): number =>
  [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)]!
