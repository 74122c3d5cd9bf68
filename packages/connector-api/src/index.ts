/**
 * The contract of KVFerry: what an engine, a connector and a transfer agent promise one another.
 *
 * @packageDocumentation
 */
export * from './assert.ts'
export * from './block-keys.ts'
export * from './capabilities.ts'
export * from './clock.ts'
export * from './config.ts'
export * from './connector.ts'
export * from './errors.ts'
export * from './history-counters.ts'
export * from './history.ts'
export * from './ids.ts'
export * from './kv-layout.ts'
export * from './kv-memory.ts'
export * from './limits.ts'
export * from './load-connector.ts'
export * from './logger.ts'
export * from './metrics.ts'
export * from './processes.ts'
export * from './prompt-digest.ts'
export * from './random.ts'
export * from './side-channel.ts'
export * from './slab-plan.ts'
export * from './slabs.ts'
export * from './transfer-agent.ts'
export * from './version.ts'
