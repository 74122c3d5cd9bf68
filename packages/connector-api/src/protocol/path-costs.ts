/**
 * `path: auto`, as a pure machine: which path a transfer to one peer takes, from what transfers to that peer
 * have cost. At first contact both paths are tried, a few times each, with transfers that are due anyway;
 * what was measured is remembered for the peer's life. One machine for each size of pieces, since a copy costs
 * by the byte and a descriptor by the piece. Called by path-chooser.ts.
 *
 * Descriptors cost more with each piece than slabs do, and less to begin with: where one number of pieces
 * goes by descriptors, fewer do, and where one goes by slabs, more do. So between the two there is one
 * threshold, which is looked for among powers of two.
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
  /** Classes from this one on go by slabs; Infinity: none yet. */
  readonly slabsFrom: number
  /** Of the classes between the two, by class. */
  readonly trials: ReadonlyMap<number, Readonly<Record<AgentPath, Trials>>>
}

export const unmeasuredCosts: PathCosts = {
  descriptorsUpTo: -1,
  slabsFrom: Infinity,
  trials: new Map(),
}

const untried: Readonly<Record<AgentPath, Trials>> = {
  descriptors: { begunCount: 0, costs: [] },
  slabs: { begunCount: 0, costs: [] },
}

const classOf = (pieceCount: number): number => Math.floor(Math.log2(Math.max(1, pieceCount)))

/** Which path that many pieces take. While that isn't known the one that was tried less. */
export function choosePath(costs: PathCosts, pieceCount: number): AgentPath {
  const at = classOf(pieceCount)
  if (at <= costs.descriptorsUpTo) return 'descriptors'
  if (at >= costs.slabsFrom) return 'slabs'
  const { descriptors, slabs } = costs.trials.get(at) ?? untried
  return slabs.begunCount < descriptors.begunCount ? 'slabs' : 'descriptors'
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
): PathCosts {
  const measured = change(costs, pieceCount, path, ({ begunCount, costs: before }) => ({
    begunCount,
    costs: [...before, us / pieceCount].slice(0, protocolLimits.pathTrialCount),
  }))
  return decide(measured, classOf(pieceCount))
}

function change(
  costs: PathCosts,
  pieceCount: number,
  path: AgentPath,
  to: (trials: Trials) => Trials,
): PathCosts {
  const at = classOf(pieceCount)
  // One that was under way when its class was decided changes nothing any more.
  if (at <= costs.descriptorsUpTo || at >= costs.slabsFrom) return costs
  const before = costs.trials.get(at) ?? untried
  const trials = new Map(costs.trials).set(at, { ...before, [path]: to(before[path]) })
  return { ...costs, trials }
}

function decide(costs: PathCosts, at: number): PathCosts {
  const trials = costs.trials.get(at)
  if (trials === undefined) return costs
  const { descriptors, slabs } = trials
  const count = Math.min(descriptors.costs.length, slabs.costs.length)
  if (count < protocolLimits.pathTrialCount) return costs
  const isBySlabs = median(slabs.costs) < median(descriptors.costs)
  const { descriptorsUpTo, slabsFrom } = costs
  return {
    descriptorsUpTo: isBySlabs ? descriptorsUpTo : at,
    slabsFrom: isBySlabs ? at : slabsFrom,
    trials: new Map([...costs.trials].filter(([other]) => (isBySlabs ? other < at : other > at))),
  }
}

/** Of an odd number of values: a single one that other work disturbed says nothing. */
const median = (values: readonly number[]): number =>
  [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)]!
