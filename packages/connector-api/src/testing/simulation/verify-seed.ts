/**
 * One seed from plan to verdict: run, audited, run again and compared; a failure is shrunk and
 * told with the one command that repeats it.
 */
import { planSimulation } from './plan.ts'
import type { SimulationPlan } from './plan.ts'
import { runSimulation } from './run-simulation.ts'
import type { SimulationTarget } from './run-simulation.ts'
import { shrinkPlan } from './shrink.ts'

export interface SeedVerdict {
  readonly seed: number
  /** What to print; null when the seed is good. */
  readonly failure: string | null
  readonly endings: readonly string[]
}

export async function verifySeed(
  connector: string,
  target: SimulationTarget,
  seed: number,
): Promise<SeedVerdict> {
  const plan = planSimulation(seed)
  const result = await runSimulation(target, plan)
  const { endings } = result
  if (result.violations.length > 0) {
    const smallest = await shrinkPlan(target, plan, result)
    const lines = smallest.result.violations.map(({ rule, text }) => `${rule}: ${text}`)
    const failure = [
      ...headOf(connector, seed),
      ...lines,
      ...describePlan(plan, smallest.plan),
      ...smallest.result.transcript,
    ]
    return { seed, failure: failure.join('\n'), endings }
  }
  const again = await runSimulation(target, plan)
  const difference = firstDifference(result.transcript, again.transcript)
  if (difference === null) return { seed, failure: null, endings }
  const failure = [...headOf(connector, seed), 'two runs of one seed differ:', ...difference]
  return { seed, failure: failure.join('\n'), endings }
}

const headOf = (connector: string, seed: number): string[] => [
  `seed ${seed} fails; to repeat it: npm run sim -- --connector ${connector} --seed ${seed}`,
]

const describePlan = (plan: SimulationPlan, smallest: SimulationPlan): string[] => [
  `shrunk from ${plan.jobs.length} jobs and ${plan.faults.length} faults to:`,
  ...smallest.jobs.map((job) => `  job ${JSON.stringify(job)}`),
  ...smallest.faults.map((fault) => `  fault ${JSON.stringify(fault)}`),
  `  free blocks ${smallest.freeMode}, times ${JSON.stringify(smallest.times)}`,
  'what happened:',
]

function firstDifference(
  one: readonly string[],
  other: readonly string[],
): readonly string[] | null {
  const length = Math.max(one.length, other.length)
  for (let at = 0; at < length; at += 1) {
    if (one[at] !== other[at]) {
      return [`line ${at}`, ...one.slice(Math.max(0, at - 5), at), `- ${one[at]}`, `+ ${other[at]}`]
    }
  }
  return null
}
