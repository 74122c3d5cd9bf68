/** Seeded simulation of a cluster under load and faults. */
export { planSimulation } from './plan.ts'
export type { FaultKind, PlannedFault, PlannedJob, SimulationPlan } from './plan.ts'
export { runSimulation } from './run-simulation.ts'
export type { SimulationResult, SimulationTarget } from './run-simulation.ts'
export { shrinkPlan } from './shrink.ts'
export { verifySeed } from './verify-seed.ts'
export type { SeedVerdict } from './verify-seed.ts'
