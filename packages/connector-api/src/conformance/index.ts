/**
 * The conformance suites: what every implementation of a port must do, as clauses with ids. Needs
 * vitest (a peer dependency) only where a suite is run as tests.
 *
 * @packageDocumentation
 */
export * from './harness.ts'
export * from './clauses.ts'
