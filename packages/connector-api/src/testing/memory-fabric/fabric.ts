/**
 * The in-memory transfer fabric: memory, kernels and any number of agents in one process, with the
 * treachery of the real thing. Simulations give it a virtual clock; the demo without NIXL runs the same
 * code on the system's clock.
 */
import type { Clock } from '../../clock.ts'
import type { AnyConnectorError } from '../../errors.ts'
import type { KvKernels, KvMemoryAllocator } from '../../kv-memory.ts'
import { limits } from '../../limits.ts'
import type { Random } from '../../random.ts'
import type { AgentNotification, TransferAgent } from '../../transfer-agent.ts'
import { AgentProcess } from './agent-process.ts'
import type { AgentOptions } from './agent-process.ts'
import { FabricCore } from './fabric-core.ts'
import type { FabricTimes, NotificationFaults } from './fabric-core.ts'
import { createKernels } from './kernels.ts'
import { touchingTransfers } from './touching.ts'
import type { MemoryRange, TouchingTransfer } from './touching.ts'
import { createMemoryAgent } from './memory-agent.ts'
import type { MemoryAgent } from './memory-agent.ts'
import { createAddressSpace } from './memory.ts'

export type MemoryFabricOptions = {
  readonly clock: Clock
  readonly random: Random
} & Partial<FabricTimes>

/** What may go wrong, by agent name. Takes effect at once. @throws RangeError for an unknown name. */
export interface MemoryFabricFaults {
  /** SIGKILL: the agent's own transfers stop; those of others to it go on for a while, then fail. */
  kill(agentName: string): void
  /** SIGSTOP: nothing reaches its listener, and nothing to or from it makes progress. */
  stop(agentName: string): void
  resume(agentName: string): void
  /** It lives, but transfers to it make no progress. */
  stall(agentName: string): void
  unstall(agentName: string): void
  /** Its next `count` posts fail, after a part of them was copied. */
  failNextPosts(agentName: string, count: number): void
  /** Its library fails for good: `onBroken`. */
  break(agentName: string, error: AnyConnectorError): void
  /** Chances of what the network does to notifications; set them at any time. */
  readonly notifications: NotificationFaults
}

export interface MemoryFabric {
  readonly allocator: KvMemoryAllocator
  readonly kernels: KvKernels
  readonly faults: MemoryFabricFaults
  /** @throws RangeError when a living agent has this name, or the name is no agent name. */
  createAgent(name: string, options?: AgentOptions): TransferAgent
  /** A notification that `from` never sent. */
  forge(toAgentName: string, notification: AgentNotification): void
  /** Who may still read or write this memory: posted transfers without final status. */
  touching(range: MemoryRange): readonly TouchingTransfer[]
}

/** Shared memory between two processes of one machine, roughly. */
const defaultTimes: FabricTimes = {
  latencyMs: 0.02,
  bandwidthBytesPerMs: 8_000_000,
  agentDelayMs: 0.05,
  deliveryDelayMs: 0.05,
  pageSizeBytes: 4_096,
  isTargetPollingNeeded: true,
}

export function createMemoryFabric(options: MemoryFabricOptions): MemoryFabric {
  const { clock, random, ...times } = options
  const space = createAddressSpace()
  const core = new FabricCore({ clock, random, space, times: { ...defaultTimes, ...times } })
  const latest = new Map<string, { process: AgentProcess; agent: MemoryAgent }>()
  let nextInstance = 1

  function find(name: string): { process: AgentProcess; agent: MemoryAgent } {
    const found = latest.get(name)
    if (found === undefined) throw new RangeError(`no agent has the name ${name}`)
    return found
  }

  return {
    allocator: space.allocator,
    kernels: createKernels(),
    faults: {
      kill: (name) => find(name).agent.kill(),
      stop: (name) => find(name).process.stop(),
      resume: (name) => find(name).process.resume(),
      stall(name) {
        find(name).process.isStalled = true
      },
      unstall(name) {
        find(name).process.isStalled = false
        core.reconsider()
      },
      failNextPosts(name, count) {
        find(name).process.failingPostCount = count
      },
      break: (name, error) => find(name).process.break(error),
      notifications: core.notificationFaults,
    },
    createAgent(name, options) {
      const sizeBytes = new TextEncoder().encode(name).length
      if (sizeBytes === 0 || sizeBytes > limits.idSizeBytesMax) {
        throw new RangeError(`agent name of ${sizeBytes} bytes`)
      }
      const before = latest.get(name)
      if (before !== undefined && !before.process.isGone) {
        throw new RangeError(`agent ${name} is alive`)
      }
      const process = new AgentProcess(core, name, nextInstance, options)
      nextInstance += 1
      const agent = createMemoryAgent(core, process)
      core.processes.set(process.instance, process)
      latest.set(name, { process, agent })
      return agent
    },
    forge: (name, notification) => find(name).process.receive(notification),
    touching: (range) => touchingTransfers(core, range),
  }
}
