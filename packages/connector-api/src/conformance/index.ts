/**
 * The conformance suites: what every implementation of a port must do, as clauses with ids. Needs
 * vitest (a peer dependency) only where a suite is run as tests.
 *
 * @packageDocumentation
 */
export * from './harness.ts'
export * from './clauses.ts'
export { reasonToSkip, runAgentClause } from './run-clause.ts'
export type { ClauseOutcome } from './run-clause.ts'
export { runAgentConformance } from './run-agent-conformance.ts'
export { createMemoryHarness } from './memory-harness.ts'
export type { MemoryHarnessOptions } from './memory-harness.ts'
