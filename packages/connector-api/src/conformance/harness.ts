/**
 * What an implementation of TransferAgent provides so that the agent suite can judge it: worlds with
 * the agent under test and a peer, power over the peer's life, and time. The suite owns everything
 * else. A clause whose need is listed in `unsupported` is skipped with that reason, never silently.
 */
import type { Clock } from '../clock.ts'
import type { KvKernels, KvMemoryAllocator } from '../kv-memory.ts'
import type { AgentPath } from '../slabs.ts'
import type { AgentPeer } from '../testing/agent-peer.ts'
import type { SimClock } from '../testing/sim-clock.ts'
import type { TransferAgent } from '../transfer-agent.ts'

/** Abilities of a harness that not every clause needs. */
export type AgentNeed =
  /** `killPeer`: the peer's process ends without a word (SIGKILL). */
  | 'peer-kill'
  /** `stallPeer`: a transfer posted from now on to this peer makes no progress until `resumePeer`. */
  | 'peer-stall'
  /** `createPeer`: a further peer beside the first. */
  | 'second-peer'
  /** `post` with `waitUntilPosted`. */
  | 'inline-post'
  /** The agent's memory is the host's, so that JS has views of it. */
  | 'host-views'
  /** The agent refuses or fails posts to memory that the loaded metadata doesn't list. */
  | 'remote-registration'

/** How a clause lets time pass. Virtual or real; limits are generous, they only end a broken run. */
export interface AgentTime {
  /** Lets time pass until the promise is settled. Rejects when it isn't within `limitMs`. */
  wait<T>(promise: Promise<T>, limitMs: number): Promise<T>
  /** Only to show that nothing happens meanwhile. */
  pass(durationMs: number): Promise<void>
}

export interface AgentWorld {
  /** The path that `agent` takes for every post (agent-on-path.ts). Default `descriptors`. */
  readonly path?: AgentPath
  /** The agent under test. The suite sets its listener. */
  readonly agent: TransferAgent
  readonly allocator: KvMemoryAllocator
  readonly kernels: KvKernels
  readonly time: AgentTime
  /** Alive, not yet known to `agent`, without tables, expecting no notifications. */
  readonly peer: AgentPeer
  createPeer(): Promise<AgentPeer>
  killPeer(peer: AgentPeer): Promise<void>
  stallPeer(peer: AgentPeer): Promise<void>
  resumePeer(peer: AgentPeer): Promise<void>
}

export interface AgentHarness {
  readonly unsupported: Readonly<Partial<Record<AgentNeed, string>>>
  /**
   * `isIsolated`: the clause kills, closes or breaks what it gets, so the world must be fresh.
   * Otherwise the same world may be handed out again: the suite cleans up behind each clause.
   */
  openWorld(options: { readonly isIsolated: boolean }): Promise<AgentWorld>
  /** `isReusable` is false after an isolated or failed clause. */
  closeWorld(world: AgentWorld, options: { readonly isReusable: boolean }): Promise<void>
  /** After the last clause. */
  close(): Promise<void>
}

/** Time of worlds that run on a simulated clock. */
export const simulatedTime = (clock: SimClock): AgentTime => ({
  wait: (promise, limitMs) => clock.wait(promise, limitMs),
  pass: (durationMs) => clock.advance(durationMs),
})

/** Time of worlds that run in real time; `clock` is the system's. */
export const realTime = (clock: Clock): AgentTime => ({
  async wait(promise, limitMs) {
    let stop = (): void => {}
    const limit = new Promise<never>((_, reject) => {
      const timer = clock.after(limitMs, () => reject(new Error(`not settled in ${limitMs} ms`)))
      stop = () => timer.stop()
    })
    try {
      return await Promise.race([promise, limit])
    } finally {
      stop()
    }
  },
  pass: (durationMs) => new Promise((resolve) => clock.after(durationMs, resolve)),
})
