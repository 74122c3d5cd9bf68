/**
 * NIXL for KVFerry: the real transfer agent, transfer memory and KV kernels.
 *
 * @packageDocumentation
 */
export { createNixlAgent, isNixlAvailable, type CreateNixlAgentOptions } from './create-agent.ts'
export { addressForDebug, createHostAllocator } from './host-memory.ts'
export { nixlInfo, type NixlInfo } from './info.ts'
export { createKernels } from './kernels.ts'
export { agentTransports, transportsInUse, type AgentTransports } from './transports.ts'
