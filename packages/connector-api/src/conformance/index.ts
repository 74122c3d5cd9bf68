/**
 * The conformance suites: what every implementation of a port must do, as clauses with ids. Needs
 * vitest (a peer dependency) only where a suite is run as tests.
 *
 * @packageDocumentation
 */
export { agentOnPath } from './agent-on-path.ts'
export * from './harness.ts'
export * from './clauses.ts'
export { reasonToSkip, runAgentClause } from './run-clause.ts'
export type { ClauseOutcome } from './run-clause.ts'
export { runAgentConformance } from './run-agent-conformance.ts'
export { createMemoryHarness } from './memory-harness.ts'
export type { MemoryHarnessOptions } from './memory-harness.ts'
export * from './connector-clauses.ts'
export type { ConnectorTarget } from './connector-target.ts'
export { reasonByManifest, runConnectorClause } from './run-connector-clause.ts'
export { runConnectorConformance } from './run-connector-conformance.ts'
export { delegate, wrapFactory } from './connector/delegate.ts'
export type { FactoryWraps } from './connector/delegate.ts'
export { runConnectorSimulation } from './run-connector-simulation.ts'
export type { ConnectorSimulation } from './run-connector-simulation.ts'
export { testMachine } from './test-machine.ts'
export type { MachineTest } from './test-machine.ts'
export { diagramsOf, transitionDiagram } from './transition-diagram.ts'
export { nothing, withListener, withoutLongTimers } from './mutants/wrong-connector.ts'
export type { WrongConnector } from './mutants/wrong-connector.ts'
export {
  acceptForgedToken,
  doubleReport,
  freeAtAbort,
  ignoreEpoch,
  keepUndelivered,
} from './mutants/common-mutants.ts'
