/**
 * NIXL for KVFerry: the real transfer agent, transfer memory and KV kernels.
 *
 * @packageDocumentation
 */
export { createNixlAgent, isNixlAvailable, type CreateNixlAgentOptions } from './create-agent.ts'
export { cudaInfo, isCudaAvailable, type CudaInfo, type GpuInfo, type GpuLink } from './cuda.ts'
export { createDeviceEvent, importDeviceEvent, type CudaEvent } from './device-event.ts'
export {
  createDeviceAllocator,
  importDeviceMemory,
  lockHostMemory,
  type DeviceAllocator,
  type DeviceKvMemory,
} from './device-memory.ts'
export {
  addressForDebug,
  createHostAllocator,
  importHostMemory,
  type HostAllocatorOptions,
  type SharedKvMemory,
  type SharedKvMemoryAllocator,
} from './host-memory.ts'
export { nixlInfo, type NixlInfo } from './info.ts'
export { createKernels } from './kernels.ts'
export { receiveFd, sendFd, type ReceivedFd } from './pass-fd.ts'
export { agentTransports, transportsInUse, type AgentTransports } from './transports.ts'
