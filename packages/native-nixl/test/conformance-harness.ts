/**
 * Harnesses of the agent suite for this package: the fake library, where the peer is a second agent of
 * this process, and real NIXL, where it lives in a process of its own.
 */
import {
  agentOnPath,
  realTime,
  type AgentHarness,
  type AgentWorld,
} from '@kvferry/connector-api/conformance'
import { connectPeer, createPeerHost, type AgentPeer } from '@kvferry/connector-api/testing'
import type { AgentPath, Clock, Instant, KvMemoryAllocator } from '@kvferry/connector-api'
import {
  createDeviceAllocator,
  createHostAllocator,
  createKernels,
  createNixlAgent,
} from '../src/index.ts'
import { Fixture } from './children.ts'
import { allocatorWithBytes } from './device-bytes.ts'
import { fakeLibraryPath } from './fake-library.ts'

const clock: Clock = {
  now: () => performance.now() as Instant,
  after(delayMs, callback) {
    const timer = setTimeout(callback, delayMs)
    return { stop: () => clearTimeout(timer) }
  },
}

const time = realTime(clock)
/** Of the host, or of a GPU. */
export const allocatorOn = (device: number | null): KvMemoryAllocator =>
  device === null
    ? createHostAllocator({ hugePages: false })
    : allocatorWithBytes(createDeviceAllocator({ device }))
const kernels = createKernels({ threads: 1 })
let agentCount = 0
const nextName = (kind: string) => `${kind}-${process.pid}-${++agentCount}`

const inThisProcess = 'its peers live in the process of the test'

/** Small, so that every transfer of some size takes several, and few, so that they are used again. */
const slabs = { sizeBytes: 16_384, count: 3 }

/** On GPUs all agents have it: whether it is taken is for each post to say. */
export const ipcOn = (device: number | null) => (device === null ? null : {})

/** Why a clause about views can't be judged there. */
export const onGpu = 'JS has no views of GPU memory'

export function createFakeHarness(
  path: AgentPath = 'descriptors',
  device: number | null = null,
): AgentHarness {
  const allocator = allocatorOn(device)
  const openPeers = new Set<AgentPeer>()
  const createAgent = (kind: string) =>
    createNixlAgent({
      ...{ name: nextName(kind), libraryPath: fakeLibraryPath, slabs, device },
      ipc: ipcOn(device),
    })
  const createPeer = async () => {
    const peer = createPeerHost({ agent: await createAgent('peer'), allocator })
    openPeers.add(peer)
    return peer
  }
  let shared: AgentWorld | null = null
  const open = async (): Promise<AgentWorld> => ({
    path,
    agent: agentOnPath(await createAgent('agent'), path),
    allocator,
    kernels,
    time,
    peer: await createPeer(),
    createPeer,
    killPeer: () => Promise.reject(new Error(inThisProcess)),
    stallPeer: () => Promise.reject(new Error(inThisProcess)),
    resumePeer: () => Promise.reject(new Error(inThisProcess)),
  })
  return {
    unsupported: {
      ...(device === null ? {} : { 'host-views': onGpu }),
      ...{ 'peer-kill': inThisProcess, 'peer-stall': inThisProcess },
      ...(path === 'slabs' ? { 'remote-registration': byThePeer } : {}),
    },
    async openWorld({ isIsolated }) {
      const world = isIsolated ? null : shared
      shared = isIsolated ? shared : null
      return world ?? (await open())
    },
    async closeWorld(world, { isReusable }) {
      if (isReusable) shared = world
      else await world.agent.close({ deadlineMs: 1_000 })
    },
    async close() {
      await shared?.agent.close()
      for (const peer of openPeers) await peer.close()
    },
  }
}

/** Why a clause about stopped peers can't be judged on GPUs but by slabs. */
export const byTheInitiator = 'the initiator’s GPU moves the bytes alone'

/** Why a clause about the loaded metadata can't be judged by slabs. */
export const byThePeer = 'the peer’s agent moves the bytes by slabs, and knows all of its regions'

export function createRealHarness(options: {
  readonly environment: Readonly<Record<string, string>>
  readonly unsupported: AgentHarness['unsupported']
  readonly path?: AgentPath
  /** GPUs of the agent and of its peer. Default: host memory. */
  readonly devices?: readonly [number, number]
}): AgentHarness {
  const [device, peerDevice] = options.devices ?? [null, null]
  const allocator = allocatorOn(device)
  const children = new Map<AgentPeer, Fixture>()
  const createPeer = async () => {
    const child = new Fixture('peer-process', {
      environment: options.environment,
      parameters: [nextName('peer'), ...(peerDevice === null ? [] : [String(peerDevice)])],
    })
    const peer = await Promise.race([connectPeer(child.port), child.ended()])
    children.set(peer, child)
    return peer
  }
  const childOf = (peer: AgentPeer): Fixture => {
    const child = children.get(peer)
    if (child === undefined) throw new Error('not a peer of this harness')
    return child
  }
  let shared: AgentWorld | null = null
  const open = async (): Promise<AgentWorld> => {
    const [agent, peer] = await Promise.all([
      createNixlAgent({
        ...{ name: nextName('agent'), env: options.environment, slabs, device },
        ipc: ipcOn(device),
      }),
      createPeer(),
    ])
    const path = options.path ?? 'descriptors'
    return {
      path,
      agent: agentOnPath(agent, path),
      allocator,
      kernels,
      time,
      peer,
      createPeer,
      killPeer: (victim) => childOf(victim).kill(),
      stallPeer: async (victim) => childOf(victim).signal('SIGSTOP'),
      resumePeer: async (victim) => childOf(victim).signal('SIGCONT'),
    }
  }
  return {
    unsupported: { ...options.unsupported, ...(device === null ? {} : { 'host-views': onGpu }) },
    async openWorld({ isIsolated }) {
      const world = isIsolated ? null : shared
      shared = isIsolated ? shared : null
      return world ?? (await open())
    },
    async closeWorld(world, { isReusable }) {
      if (isReusable) {
        shared = world
        return
      }
      await world.agent.close({ deadlineMs: 2_000 })
      await children.get(world.peer)?.kill()
    },
    async close() {
      await shared?.agent.close()
      for (const child of children.values()) await child.kill()
    },
  }
}
