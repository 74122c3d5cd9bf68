/**
 * The path `ipc` over the fake driver, the peer in a process of its own: what is mapped when and how long, what is refused,
 * kernels that end late, and peers that end first.
 */
import './fake-cuda.ts'
import { readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs'
import { limits, type TransferAgent, type TransferCompletion } from '@kvferry/connector-api'
import { connectPeer, type AgentPeer, type PeerTable } from '@kvferry/connector-api/testing'
import { afterEach, beforeEach, expect, test } from 'vitest'
import {
  createDeviceAllocator,
  createHostAllocator,
  createNixlAgent,
  type DeviceKvMemory,
} from '../src/index.ts'
import { Fixture } from './children.ts'
import { fakeLibraryPath } from './fake-library.ts'
import { identityOf } from './process-identity.ts'

process.env['KVFERRY_NIXL_LIBRARY'] = fakeLibraryPath

const blockBytes = 4_096
const blockCount = 512
const sizeBytes = blockBytes * blockCount
const layout = { blockSizeBytes: blockBytes, blockStrideBytes: blockBytes, blockCount }
const region = { leadBytes: 0, ...layout, tailBytes: 0 }
const settings = ['LINKS', 'STALLED', 'BLOCKS_MAX'].map((name) => `KVFERRY_FAKE_CUDA_${name}`)

let child: Fixture
let remote: AgentPeer
let theirs: PeerTable
let agent: TransferAgent
let memory: DeviceKvMemory
let completions: TransferCompletion[]
let count = 0

async function openAgent(ipc: { ctaCount?: number } | null = {}): Promise<TransferAgent> {
  count += 1
  const opened = await createNixlAgent({ name: `ipc-${process.pid}-${count}`, device: 0, ipc })
  completions = []
  opened.setListener({
    onCompletions: (batch) => void completions.push(...batch),
    onNotifications() {},
    onBroken(error) {
      throw error
    },
  })
  return opened
}

async function openPeer(parameters: readonly string[] = ['1']): Promise<void> {
  count += 1
  child = new Fixture('peer-process', {
    parameters: [`peer-${process.pid}-${count}`, ...parameters],
  })
  remote = await Promise.race([connectPeer(child.port), child.ended()])
  theirs = await remote.declareTable([region])
  await remote.expectNotifications(true)
}

beforeEach(async () => {
  memory = createDeviceAllocator({ device: 0 }).allocate({ sizeBytes })
})
afterEach(async () => {
  for (const name of settings) delete process.env[name]
  await agent.close({ deadlineMs: 1_000 })
  await child.kill()
})

const meet = () => agent.addPeer({ metadata: theirs.metadata, expectedName: remote.name })

async function tableHere(of = agent, own = memory) {
  const registered = await of.registerRegion({
    memory: own,
    offsetBytes: 0,
    lengthBytes: sizeBytes,
  })
  return of.declareBlockTable([{ region: registered, offsetBytes: 0, ...layout }])
}

/** All blocks, ours in order, theirs backwards. */
async function pair(of = agent) {
  const peer = await of.addPeer({ metadata: theirs.metadata, expectedName: remote.name })
  const local = {
    table: await tableHere(of),
    blockIds: Uint32Array.from({ length: 64 }, (_, id) => id),
  }
  const table = of.importBlockTable(peer, theirs.exported)
  const remoteSide = { table, blockIds: local.blockIds.map((id) => blockCount - 1 - id) }
  return { peer, local, remote: remoteSide, path: 'ipc' as const }
}

async function until(isMet: () => boolean, limitMs = 30_000): Promise<void> {
  const end = performance.now() + limitMs
  while (!isMet()) {
    if (performance.now() > end) throw new Error('it never came')
    await new Promise((resolve) => setTimeout(resolve, 2))
  }
}

async function move(direction: 'read' | 'write', of = agent): Promise<TransferCompletion> {
  of.post([{ direction, ...(await pair(of)) }])
  await until(() => completions.length > 0)
  return completions[0]!
}

const fakeMemory = 'kvferry-fake-gpu'

/** How many allocations of other processes are mapped here: of its own this one has the files open, too. */
function mappings(): number {
  const own = readdirSync('/proc/self/fd').flatMap((fd) => {
    try {
      const path = `/proc/self/fd/${fd}`
      return readlinkSync(path).includes(fakeMemory) ? [String(statSync(path).ino)] : []
    } catch {
      // Closed meanwhile, as the one that lists them.
      return []
    }
  })
  return readFileSync('/proc/self/maps', 'utf8')
    .split('\n')
    .filter((line) => line.includes(fakeMemory) && !own.includes(line.split(/ +/)[4]!)).length
}

test('a peer’s memory is mapped once for its life as a peer, and closed with it', async () => {
  await openPeer()
  agent = await openAgent()
  expect(mappings()).toBe(0)
  const peer = await meet()
  expect(agent.pathsTo(peer)).toEqual(['descriptors', 'ipc'])
  expect(mappings()).toBe(1)
  await agent.removePeer(peer)
  expect(mappings()).toBe(0)
  await meet()
  const again = await meet()
  expect(mappings()).toBe(1)
  await agent.removePeer(again)
  expect(mappings()).toBe(0)
})

test('the mapping of a removed peer stays until the kernel that uses it is over', async () => {
  await openPeer()
  agent = await openAgent()
  const post = await pair()
  memory.write(0, new Uint8Array(sizeBytes).fill(7))
  process.env['KVFERRY_FAKE_CUDA_STALLED'] = '1'
  agent.post([{ direction: 'write', ...post }])
  await agent.removePeer(post.peer)
  expect(mappings()).toBe(1)
  expect(completions).toEqual([])
  delete process.env['KVFERRY_FAKE_CUDA_STALLED']
  await until(() => completions.length > 0)
  expect(completions[0]).toMatchObject({ status: 'done' })
  expect(mappings()).toBe(0)
  expect((await remote.readMemory(theirs.id, 0)).subarray(-64 * blockBytes)).toEqual(
    new Uint8Array(64 * blockBytes).fill(7),
  )
})

test('a kernel past its deadline is overdue until it ends; one that was not launched by then fails', async () => {
  await openPeer()
  agent = await openAgent()
  const post = { direction: 'write', ...(await pair()), deadlineMs: 1_000 } as const
  process.env['KVFERRY_FAKE_CUDA_STALLED'] = '1'
  const posts = Array.from({ length: 10 }, () => post)
  const notification = Uint8Array.of(1)
  agent.post(posts.map((each, at) => (at === 0 ? { ...each, notification } : each)))
  await until(() => completions.length === 10)
  const of = (status: string) => completions.filter((each) => each.status === status)
  expect([of('overdue').length, of('failed').length]).toEqual([8, 2])
  for (const each of of('failed'))
    expect(each).toMatchObject({ error: { code: 'ERR_KV_DEADLINE' } })
  expect(() => agent.releaseBlockTable(post.local.table)).toThrow(
    expect.objectContaining({ code: 'ERR_KV_BUSY' }),
  )
  expect(await remote.takeNotifications(0)).toEqual([])
  delete process.env['KVFERRY_FAKE_CUDA_STALLED']
  await until(() => of('done').length === 8)
  expect(await remote.takeNotifications(1)).toHaveLength(1)
  agent.releaseBlockTable(post.local.table)
})

test('a write to a process that has ended fails, although its memory is still mapped', async () => {
  await openPeer()
  agent = await openAgent()
  const post = await pair()
  process.env['KVFERRY_FAKE_CUDA_STALLED'] = '1'
  agent.post([{ direction: 'write', ...post }])
  await until(() => agent.counters().transfersPosted === 1)
  await child.kill()
  delete process.env['KVFERRY_FAKE_CUDA_STALLED']
  await until(() => completions.length > 0)
  agent.post([{ direction: 'read', ...post }])
  await until(() => completions.length > 1)
  for (const each of completions) {
    expect(each).toMatchObject({ status: 'failed', error: { code: 'ERR_KV_TRANSFER_FAILED' } })
  }
  // Nobody can have the dead one's memory back while it is mapped.
  expect(mappings()).toBe(0)
})

test('blocks that a dead process may have written are ours again only once its GPU is done, too', async () => {
  await openPeer()
  agent = await openAgent()
  const identity = identityOf(child.process.pid!)
  await child.kill()
  const start = performance.now()
  await agent.processEnded(identity)
  expect(performance.now() - start).toBeGreaterThan(990)
})

test('at most as many CTAs as configured', async () => {
  await openPeer()
  agent = await openAgent({ ctaCount: 3 })
  process.env['KVFERRY_FAKE_CUDA_BLOCKS_MAX'] = '3'
  expect(await move('write')).toMatchObject({ status: 'done' })
  const other = await openAgent({ ctaCount: 4 })
  expect(await move('read', other)).toMatchObject({ status: 'failed', error: { code: 'ERR_CUDA' } })
  await other.close()
  await expect(openAgent({ ctaCount: limits.ipcCtaCountMax + 1 })).rejects.toThrow(RangeError)
})

test('GPUs that are not linked, and peers that offer nothing, have no such path: the reason is said', async () => {
  process.env['KVFERRY_FAKE_CUDA_LINKS'] = '0'
  await openPeer()
  agent = await openAgent()
  const unlinked = await pair()
  expect(agent.pathsTo(unlinked.peer)).toEqual(['descriptors'])
  const refused = (why: RegExp) =>
    expect.objectContaining({ code: 'ERR_KV_UNSUPPORTED', message: expect.stringMatching(why) })
  expect(() => agent.post([{ direction: 'write', ...unlinked }])).toThrow(
    refused(/ipcOpen answered CUDA_ERROR_PEER_ACCESS_UNSUPPORTED/),
  )
  const plain = await openAgent(null)
  expect(plain.paths).toEqual(['descriptors'])
  const without = await pair(plain)
  expect(plain.pathsTo(without.peer)).toEqual(['descriptors'])
  expect(() => plain.post([{ direction: 'write', ...without }])).toThrow(
    refused(/this agent has no path ipc/),
  )
  await plain.close()
  await child.kill()
  // Its memory lies on the host.
  await openPeer([])
  const hostPeer = await meet()
  expect(agent.pathsTo(hostPeer)).toEqual(['descriptors'])
})

test('imported and virtual memory is a local side, and refused as a target', async () => {
  await openPeer()
  agent = await openAgent()
  const virtual = createDeviceAllocator({ device: 0, virtual: true }).allocate({ sizeBytes })
  const post = await pair()
  const local = { ...post.local, table: await tableHere(agent, virtual) }
  agent.post([{ direction: 'read', ...post, local }])
  await until(() => completions.length > 0)
  expect(completions[0]).toMatchObject({ status: 'done' })
  const other = await openAgent()
  const table = await tableHere(other, virtual)
  const peer = await agent.addPeer({
    metadata: await other.localMetadata(),
    expectedName: other.name,
  })
  expect(agent.pathsTo(peer)).toEqual(['descriptors'])
  await tableHere(other, createDeviceAllocator({ device: 0 }).allocate({ sizeBytes }))
  const again = await agent.addPeer({
    metadata: await other.localMetadata(),
    expectedName: other.name,
  })
  expect(agent.pathsTo(again)).toEqual(['descriptors', 'ipc'])
  const theirSide = {
    ...{ table: agent.importBlockTable(again, other.exportBlockTable(table)) },
    blockIds: local.blockIds,
  }
  expect(() =>
    agent.post([{ direction: 'write', ...post, peer: again, remote: theirSide }]),
  ).toThrow(/it has no handle/)
  await other.close()
})

test('without a GPU the path is refused, with what is missing', async () => {
  await openPeer()
  agent = await openAgent()
  await expect(createNixlAgent({ name: 'gpu-less', ipc: {} })).rejects.toMatchObject({
    code: 'ERR_KV_UNSUPPORTED',
    message: expect.stringContaining('option device'),
  })
  const host = createHostAllocator({ hugePages: false }).allocate({ sizeBytes })
  const peer = await meet()
  const range = { offsetBytes: 0, lengthBytes: sizeBytes }
  const registered = await agent.registerRegion({ memory: host, ...range })
  const table = agent.declareBlockTable([{ region: registered, offsetBytes: 0, ...layout }])
  const blockIds = Uint32Array.of(1)
  const remote = { table: agent.importBlockTable(peer, theirs.exported), blockIds }
  const local = { table, blockIds }
  expect(() => agent.post([{ direction: 'read', peer, path: 'ipc', local, remote }])).toThrow(
    expect.objectContaining({ code: 'ERR_KV_UNSUPPORTED' }),
  )
})
