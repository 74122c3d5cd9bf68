/** Exhaustive exploration of small models over shipped step functions. */
export { describeCounterExample, explore } from './explore.ts'
export type { CounterExample, Exploration, Model, ModelStep } from './explore.ts'
export { exploreWhole, type WholeExploration } from './explore-whole.ts'
