/** Mutants that take what they must refuse, or keep what they must let go. */
import { ConnectorError } from '../../src/index.ts'
import type { KvMemory, TransferAgent, TransferHandle, TransferPost } from '../../src/index.ts'
import type { Mutant } from './mutant.ts'

/** Takes posts that the agent refuses, when `isTaken` says so, with a handle that leads nowhere. */
const takePosts = (
  agent: TransferAgent,
  isTaken: (post: TransferPost, error: unknown) => boolean,
): TransferAgent => ({
  ...agent,
  post(posts, options) {
    try {
      return agent.post(posts, options)
    } catch (error) {
      if (posts.length === 1 && isTaken(posts[0]!, error)) return [1 as TransferHandle]
      throw error
    }
  },
})

const isMessage = (error: unknown, part: string): boolean =>
  error instanceof RangeError && error.message.includes(part)

/** Memory whose `free` the mutant decides. */
const withFree = (memory: KvMemory, free: () => void): KvMemory =>
  new Proxy(memory, { get: (target, key) => (key === 'free' ? free : Reflect.get(target, key)) })

export const refusalMutants: readonly Mutant[] = [
  {
    name: 'zero lengths are taken',
    clause: 'A11.1',
    wrapAgent: (agent) =>
      takePosts(agent, ({ local }) => 'blockIds' in local && local.blockIds.length === 0),
  },
  {
    name: 'bytes may be written twice',
    clause: 'A11.5',
    wrapAgent: (agent) => takePosts(agent, (_, error) => isMessage(error, 'written twice')),
  },
  {
    name: 'unequal sides are cut to the shorter one',
    clause: 'A11.4',
    wrapAgent: (agent) => takePosts(agent, (_, error) => isMessage(error, 'sides differ')),
  },
  {
    name: 'ranges are checked in 64 bits that wrap',
    clause: 'A11.3',
    wrapAgent: (agent) =>
      takePosts(agent, ({ local }) => 'offsets' in local && local.offsets[0]! > 2 ** 60),
  },
  {
    name: 'direction 7 is taken for a write',
    clause: 'A11.6',
    wrapAgent: (agent) => takePosts(agent, ({ direction }) => (direction as unknown) === 7),
  },
  {
    name: 'the queue has no end',
    clause: 'A11.10',
    wrapAgent: (agent) => ({
      ...agent,
      post(posts, options) {
        try {
          return agent.post(posts, options)
        } catch (error) {
          if (!ConnectorError.isInstance(error)) throw error
          return posts.map(() => 1 as TransferHandle)
        }
      },
    }),
  },
  {
    name: 'a released table goes on working',
    clause: 'A3.5',
    wrapAgent: (agent) => ({ ...agent, releaseBlockTable() {} }),
  },
  {
    name: 'a removed peer goes on working',
    clause: 'A2.5',
    wrapAgent: (agent) => ({ ...agent, removePeer: async () => {} }),
  },
  {
    name: 'any name is good enough',
    clause: 'A2.2',
    wrapAgent: (agent) => ({
      ...agent,
      async addPeer(options) {
        try {
          return await agent.addPeer(options)
        } catch (error) {
          if (!ConnectorError.isInstance(error) || error.code !== 'ERR_KV_PEER_INCOMPATIBLE') {
            throw error
          }
          return agent.addPeer({ ...options, expectedName: error.details.remote })
        }
      },
    }),
  },
  {
    name: 'good posts of a bad list are enqueued',
    clause: 'A5.7',
    wrapAgent: (agent) => ({
      ...agent,
      post: (posts, options) => posts.flatMap((post) => agent.post([post], options)),
    }),
  },
  {
    name: 'a region in use is deregistered',
    clause: 'A1.7',
    wrapAgent: (agent) => ({
      ...agent,
      deregisterRegion: (region) => agent.deregisterRegion(region).catch(() => {}),
    }),
  },
  {
    name: 'registered memory is freed',
    clause: 'A1.5',
    wrapFabric: (fabric) => ({
      ...fabric,
      allocator: {
        allocate(options) {
          const memory = fabric.allocator.allocate(options)
          // Not a proxy: the fabric must know the memory as its own when it is registered.
          Object.defineProperty(memory, 'free', { value: () => {} })
          return memory
        },
      },
    }),
  },
  {
    name: 'freeing leaves the views in place',
    clause: 'A1.6',
    wrapFabric: (fabric) => ({
      ...fabric,
      allocator: {
        allocate: (options) => withFree(fabric.allocator.allocate(options), () => {}),
      },
    }),
  },
  {
    name: 'memory comes as it was left',
    clause: 'A1.1',
    wrapFabric: (fabric) => ({
      ...fabric,
      allocator: {
        allocate(options) {
          const memory = fabric.allocator.allocate(options)
          memory.bytes!.fill(1)
          return memory
        },
      },
    }),
  },
  {
    name: 'a closed agent takes posts',
    clause: 'A10.4',
    wrapAgent: (agent) => ({ ...agent, createFence: () => ({ handle: 1 as never }) }),
  },
]
