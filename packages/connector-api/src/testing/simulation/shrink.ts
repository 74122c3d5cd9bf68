/**
 * Makes a failing plan smaller: leaves out one fault, job, abort or repetition after another as long as the
 * same rule is still broken. Greedy and bounded: the aim is a transcript that a person reads, not a minimum.
 */
import type { SimulationPlan } from './plan.ts'
import { runSimulation } from './run-simulation.ts'
import type { SimulationResult, SimulationTarget } from './run-simulation.ts'

const runCountMax = 200

/** Every plan that is smaller by one thing; the largest things first. */
function* smallerPlans(plan: SimulationPlan): Iterable<SimulationPlan> {
  for (const index of plan.faults.keys()) {
    yield { ...plan, faults: plan.faults.filter((_, at) => at !== index) }
  }
  for (const index of plan.jobs.keys()) {
    yield { ...plan, jobs: plan.jobs.filter((_, at) => at !== index) }
  }
  for (const [index, job] of plan.jobs.entries()) {
    if (job.abort !== null) yield { ...plan, jobs: plan.jobs.with(index, { ...job, abort: null }) }
    if (job.repeatAt !== null) {
      yield { ...plan, jobs: plan.jobs.with(index, { ...job, repeatAt: null }) }
    }
  }
}

export async function shrinkPlan(
  target: SimulationTarget,
  plan: SimulationPlan,
  failed: SimulationResult,
): Promise<{ readonly plan: SimulationPlan; readonly result: SimulationResult }> {
  const rule = failed.violations[0]?.rule
  let best = { plan, result: failed }
  let runCount = 0
  for (let isSmaller = true; isSmaller;) {
    isSmaller = false
    for (const smaller of smallerPlans(best.plan)) {
      if (runCount >= runCountMax) return best
      runCount += 1
      const result = await runSimulation(target, smaller)
      if (!result.violations.some((violation) => violation.rule === rule)) continue
      best = { plan: smaller, result }
      isSmaller = true
      break
    }
  }
  return best
}
