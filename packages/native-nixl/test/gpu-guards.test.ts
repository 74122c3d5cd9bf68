/**
 * What the library would do slowly, or not at all, is refused before it is posted, by each path: over the fake driver. That between
 * host and GPU memory nothing goes through the library; that imported and virtual memory is no target, except by slabs.
 */
import './fake-cuda.ts'
import type {
  AgentPath,
  KvMemory,
  TransferAgent,
  TransferCompletion,
  TransferPost,
} from '@kvferry/connector-api'
import { afterEach, describe, expect, test } from 'vitest'
import { createDeviceAllocator, createHostAllocator, createNixlAgent } from '../src/index.ts'
import { fakeLibraryPath } from './fake-library.ts'

const blockBytes = 4_096
const blockCount = 16
const sizeBytes = blockBytes * blockCount
const layout = { blockSizeBytes: blockBytes, blockStrideBytes: blockBytes, blockCount }
const slabs = { sizeBytes: 16_384, count: 3 }
const allPaths: readonly AgentPath[] = ['descriptors', 'slabs', 'ipc']

const agents: TransferAgent[] = []
afterEach(async () => {
  for (const agent of agents.splice(0)) await agent.close({ deadlineMs: 1_000 })
})

let count = 0
async function openAgent(): Promise<TransferAgent> {
  count += 1
  const name = `guards-${process.pid}-${count}`
  const options = { libraryPath: fakeLibraryPath, device: 0, slabs, ipc: {} }
  const agent = await createNixlAgent({ name, ...options })
  agents.push(agent)
  return agent
}

async function tableOf(agent: TransferAgent, memory: KvMemory) {
  const region = await agent.registerRegion({ memory, offsetBytes: 0, lengthBytes: sizeBytes })
  return agent.declareBlockTable([{ region, offsetBytes: 0, ...layout }])
}

/** A post from memory of ours to memory of a second agent's. */
async function prepare(own: KvMemory, theirs: KvMemory) {
  const [agent, other] = [await openAgent(), await openAgent()]
  const table = await tableOf(agent, own)
  const exported = other.exportBlockTable(await tableOf(other, theirs))
  // Something that has a handle, so that the peer as such has the path ipc.
  await tableOf(other, plain())
  const metadata = await other.localMetadata()
  const peer = await agent.addPeer({ metadata, expectedName: other.name })
  other.expectNotifications(true)
  const blockIds = Uint32Array.of(1, 3, 5)
  const sides = {
    local: { table, blockIds },
    remote: { table: agent.importBlockTable(peer, exported), blockIds },
  }
  const post = (path: AgentPath, direction: TransferPost['direction']): TransferPost => ({
    ...{ direction, peer, path },
    ...sides,
  })
  return { agent, post }
}

const host = () => createHostAllocator({ hugePages: false }).allocate({ sizeBytes })
const plain = () => createDeviceAllocator({ device: 0 }).allocate({ sizeBytes })
const virtual = () => createDeviceAllocator({ device: 0, virtual: true }).allocate({ sizeBytes })

const refused = (why: RegExp) =>
  expect.objectContaining({ code: 'ERR_KV_UNSUPPORTED', message: expect.stringMatching(why) })

describe('refused by every path, both ways', () => {
  test.each([
    ['from the host to a GPU', host, plain],
    ['from a GPU to the host', plain, host],
  ] as const)('%s', async (_, own, theirs) => {
    const { agent, post } = await prepare(own(), theirs())
    for (const path of allPaths) {
      for (const direction of ['read', 'write'] as const) {
        expect(() => agent.post([post(path, direction)]), `${path} ${direction}`).toThrow(
          refused(/copy within each machine first/),
        )
      }
    }
    expect(agent.counters().transfersPosted).toBe(0)
  })
})

describe('virtual memory', () => {
  test('is a local side by descriptors and by ipc, and no target', async () => {
    for (const path of ['descriptors', 'ipc'] as const) {
      const { agent, post } = await prepare(plain(), virtual())
      for (const direction of ['read', 'write'] as const) {
        expect(() => agent.post([post(path, direction)]), path).toThrow(refused(/no handle/))
      }
      const other = await prepare(virtual(), plain())
      expect(await endOf(other.agent, other.post(path, 'write')), path).toMatchObject({
        status: 'done',
      })
    }
  })

  test('is a target by slabs, which lie elsewhere', async () => {
    const [own, theirs] = [plain(), virtual()]
    const content = Uint8Array.from({ length: blockBytes }, (_, at) => (at * 7) & 255)
    own.write(3 * blockBytes, content)
    const { agent, post } = await prepare(own, theirs)
    expect(await endOf(agent, post('slabs', 'write'))).toMatchObject({ status: 'done' })
    const found = new Uint8Array(blockBytes)
    theirs.read(3 * blockBytes, found)
    expect(found).toEqual(content)
  })
})

function endOf(agent: TransferAgent, post: TransferPost): Promise<TransferCompletion> {
  return new Promise((resolve, reject) => {
    agent.setListener({
      onCompletions: ([completion]) => completion && resolve(completion),
      onNotifications() {},
      onBroken: reject,
    })
    agent.post([post])
  })
}
