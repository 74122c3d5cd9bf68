/**
 * What the protocols of connectors share, whichever side moves the bytes: codecs, checked state machines,
 * handshake facts, plans of transfers, tokens, clocks of peers. For authors of connectors; engines and
 * agents need none of it.
 *
 * @packageDocumentation
 */
export * from './bytes.ts'
export * from './consumer-request.ts'
export * from './consumer-requests.ts'
export * from './counters.ts'
export * from './entry-outbox.ts'
export * from './facts.ts'
export * from './failures.ts'
export * from './handshake-back-off.ts'
export * from './heartbeat.ts'
export * from './host-staging.ts'
export * from './kv-registration.ts'
export * from './life-key.ts'
export * from './limits.ts'
export * from './load-results.ts'
export * from './nearest-option.ts'
export * from './option-fields.ts'
export * from './param-fields.ts'
export * from './peer-addresses.ts'
export * from './peer-clock.ts'
export * from './peer-tokens.ts'
export * from './poll-holds.ts'
export * from './post-all.ts'
export * from './producer-request.ts'
export * from './prompt-blocks.ts'
export * from './quarantine.ts'
export * from './rank-channel.ts'
export * from './rank-mapping.ts'
export * from './slab-sides.ts'
export * from './transfer-metrics.ts'
export * from './transfer-plan.ts'
export * from './transition-table.ts'
export * from './worker-life.ts'
