/**
 * The in-memory fabric as a subject of the agent suite, on a simulated clock. Each world is a fabric of
 * its own. Also the pattern for other harnesses; `wrapAgent` lets mutants of the agent be judged.
 */
import type { AgentPath } from '../slabs.ts'
import { createPeerHost } from '../testing/agent-peer.ts'
import { createMemoryFabric } from '../testing/memory-fabric/fabric.ts'
import type { MemoryFabric } from '../testing/memory-fabric/fabric.ts'
import { createSeededRandom } from '../testing/seeded-random.ts'
import { createSimClock } from '../testing/sim-clock.ts'
import type { TransferAgent } from '../transfer-agent.ts'
import { agentOnPath } from './agent-on-path.ts'
import { simulatedTime } from './harness.ts'
import type { AgentHarness, AgentWorld } from './harness.ts'

export interface MemoryHarnessOptions {
  readonly seed: number
  /** Which path the suite's posts take. Default `descriptors`. */
  readonly path?: AgentPath
  /** What the suite gets instead of the agent. */
  readonly wrapAgent?: (agent: TransferAgent, fabric: MemoryFabric) => TransferAgent
  /** What the suite gets instead of the fabric's allocator and agents. */
  readonly wrapFabric?: (fabric: MemoryFabric) => MemoryFabric
}

/** By slabs the peer's agent moves the bytes. */
const ownRegions = 'the peer’s agent moves the bytes by slabs, and knows all of its regions'

export function createMemoryHarness(options: MemoryHarnessOptions): AgentHarness {
  let worldCount = 0
  function openWorld(): AgentWorld {
    worldCount += 1
    const seed = options.seed + worldCount / 4_096
    const clock = createSimClock(seed)
    const made = createMemoryFabric({ clock, random: createSeededRandom(seed) })
    const fabric = options.wrapFabric?.(made) ?? made
    const { allocator, kernels, faults } = fabric
    let peerCount = 0
    const createPeer = () => {
      peerCount += 1
      return createPeerHost({
        agent: fabric.createAgent(`peer-${peerCount}`, { hasSlabs: true, hasIpc: true }),
        allocator,
      })
    }
    const direct = fabric.createAgent('agent', { hasSlabs: true, hasIpc: true })
    const path = options.path ?? 'descriptors'
    const agent = path === 'descriptors' ? direct : agentOnPath(direct, path)
    return {
      path,
      agent: options.wrapAgent?.(agent, fabric) ?? agent,
      allocator,
      kernels,
      time: simulatedTime(clock),
      peer: createPeer(),
      createPeer: async () => createPeer(),
      killPeer: async (peer) => faults.kill(peer.name),
      stallPeer: async (peer) => faults.stall(peer.name),
      resumePeer: async (peer) => faults.unstall(peer.name),
    }
  }
  return {
    unsupported: options.path === 'slabs' ? { 'remote-registration': ownRegions } : {},
    openWorld: async () => openWorld(),
    // Nothing outlives its world: no process, socket or timer of the system.
    closeWorld: async () => {},
    close: async () => {},
  }
}
