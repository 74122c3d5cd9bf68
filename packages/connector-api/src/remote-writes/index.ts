/**
 * What connectors share in which the producer WRITEs into blocks that the consumer named: registration,
 * withdrawal, quarantine, news and measurements, on both sides (decision 10). When a producer may write is
 * each protocol's own. Not a contract with users of one connector: it may change with any version.
 *
 * @packageDocumentation
 */
export * from './consumer-entries.ts'
export * from './consumer-peers.ts'
export * from './consumer-worker.ts'
export * from './handshake-messages.ts'
export * from './heartbeat-messages.ts'
export * from './limits.ts'
export * from './messages.ts'
export * from './notification.ts'
export * from './offer.ts'
export * from './producer-answers.ts'
export * from './registration-check.ts'
export * from './registration-state.ts'
export * from './write-counters.ts'
export * from './write-part.ts'
export * from './write-posts.ts'
export * from './write-state.ts'
export * from './write-table.ts'
