/**
 * What tests, simulations and the demo without NIXL need in place of the real world: virtual time,
 * repeatable randomness, an in-memory transfer fabric and side channel. No test runner is imported.
 *
 * @packageDocumentation
 */
export * from './seeded-random.ts'
export * from './sim-clock.ts'
export { createByteMutator, type ByteMutatorOptions } from './byte-mutator.ts'
export { sweepHostileParams, type HostileParams } from './hostile-params.ts'
export * from './agent-peer.ts'
export * from './peer-port.ts'
export { createMemoryFabric } from './memory-fabric/fabric.ts'
export type {
  MemoryFabric,
  MemoryFabricFaults,
  MemoryFabricOptions,
} from './memory-fabric/fabric.ts'
export type { MemoryRange, TouchingTransfer } from './memory-fabric/touching.ts'
export type { FabricTimes, NotificationFaults } from './memory-fabric/fabric-core.ts'
export { createMemorySideChannels } from './memory-side-channel/memory-side-channels.ts'
export type {
  MemorySideChannelFaults,
  MemorySideChannels,
  MemorySideChannelsOptions,
} from './memory-side-channel/memory-side-channels.ts'
export * from './cluster/index.ts'
export * from './simulation/index.ts'
export * from './explorer/index.ts'
