/**
 * What the library takes although it should not, tried at the lowest level that JS can reach: even a
 * mistake in our own TypeScript must end in an exception.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ConnectorError, type TransferAgent } from '@kvferry/connector-api'
import { createHostAllocator, createNixlAgent } from '../src/index.ts'
import type { NativeAgent, NativePosts } from '../src/binding.ts'
import { nativeMemoryOf } from '../src/native-memory.ts'
import { loadBinding } from '../src/load-binding.ts'
import { fakeLibraryPath } from './fake-library.ts'

const memory = createHostAllocator().allocate({ sizeBytes: 65_536 })
let agent: NativeAgent
let peerAgent: TransferAgent
let peer: number
let table: number
let remoteTable: number
let exported: Uint8Array

/** Commands answer by ticket. */
const waiting = new Map<number, (handle: number) => void>()
const handleOf = (enqueue: () => number) =>
  new Promise<number>((resolve) => waiting.set(enqueue(), resolve))

beforeAll(async () => {
  const { Agent } = loadBinding()
  peerAgent = await createNixlAgent({ name: 'refusals-peer', libraryPath: fakeLibraryPath })
  const region = await peerAgent.registerRegion({ memory, offsetBytes: 0, lengthBytes: 65_536 })
  const layout = { offsetBytes: 0, blockSizeBytes: 4_096, blockStrideBytes: 4_096, blockCount: 16 }
  exported = peerAgent.exportBlockTable(peerAgent.declareBlockTable([{ region, ...layout }]))
  agent = new Agent('refusals', fakeLibraryPath, ['UCX'], 0, 0, (_, __, ___, commands) => {
    for (const { ticket, handle } of commands) waiting.get(ticket)?.(handle)
  })
  const own = await handleOf(() => agent.registerRegion(nativeMemoryOf(memory), 0, 65_536))
  table = agent.declareBlockTable([own, 0, 4_096, 4_096, 16])
  const framed = await peerAgent.localMetadata()
  // The frame is TypeScript's; the native half takes what is inside.
  peer = await handleOf(() => agent.addPeer(new Uint8Array(framed.subarray(21)), 'refusals-peer'))
  remoteTable = agent.importBlockTable(peer, exported)
})

afterAll(async () => {
  await handleOf(() => agent.close(1_000))
  await peerAgent.close()
  memory.free()
})

const good = (): NativePosts => ({
  numbers: Float64Array.of(0, peer, -1, 1_000, 0, table, remoteTable, 0),
  lists: [null, Uint32Array.of(1), Uint32Array.of(2)],
})

const post = ({ numbers, lists }: NativePosts) => agent.post(numbers, false, ...lists)

/** The good post with one of its numbers, or of its lists, changed. */
const number = (index: number, value: number): NativePosts => {
  const posts = good()
  posts.numbers[index] = value
  return posts
}
const list = (index: number, value: unknown): NativePosts => {
  const posts = good()
  posts.lists[index] = value as null
  return posts
}
const segments = (...lists: unknown[]) => list(1, lists)

describe('posts at the native boundary', () => {
  test('the good one is taken, and gets a handle', () => {
    const { numbers, lists } = good()
    agent.post(numbers, true, ...lists)
    expect(numbers[7]).toBeGreaterThan(0)
  })

  test.each<[string, () => NativePosts]>([
    ['an operation that does not exist', () => number(0, 7)],
    ['a negative operation', () => number(0, -1)],
    ['an operation that is no number', () => number(0, NaN)],
    ['a stale peer', () => number(1, peer + 2 ** 20)],
    ['a table for a peer', () => number(1, table)],
    ['a peer for a table', () => number(5, peer)],
    ['a region handle of nobody', () => number(6, 1)],
    ['a fence of nobody', () => number(2, 12_345)],
    ['a fence that is a fraction', () => number(2, 0.5)],
    ['a deadline that is no number', () => number(3, NaN)],
    ['a path that does not exist', () => number(4, 2)],
    ['slabs of an agent without', () => number(4, 1)],
    ['no block ids', () => list(1, new Uint32Array(0))],
    ['block ids as bytes', () => list(1, new Uint8Array(4))],
    ['block ids over shared memory', () => list(1, new Uint32Array(new SharedArrayBuffer(4)))],
    ['null for block ids', () => list(1, null)],
    ['a notification that is text', () => list(0, 'done')],
    ['a notification over the limit', () => list(0, new Uint8Array(513))],
    ['a hole in the lists', () => list(2, undefined)],
    ['segments without lengths', () => segments(Uint32Array.of(0), Float64Array.of(0))],
    [
      'segments of different lengths',
      () => segments(Uint32Array.of(0), Float64Array.of(0), new Float64Array(2)),
    ],
    ['fewer numbers than posts', () => ({ ...good(), numbers: new Float64Array(7) })],
    ['numbers that are text', () => ({ ...good(), numbers: 'none' as never })],
    ['numbers as a list', () => ({ ...good(), numbers: [...good().numbers] as never })],
    [
      'numbers over shared memory',
      () => ({ ...good(), numbers: new Float64Array(new SharedArrayBuffer(64)) }),
    ],
    ['a post without its last list', () => ({ ...good(), lists: good().lists.slice(0, 2) })],
    ['a list too many', () => ({ ...good(), lists: [...good().lists, null] })],
  ])('%s is refused', (_, posts) => {
    expect(() => post(posts())).toThrow()
  })

  test('detached block ids are refused', () => {
    const ids = Uint32Array.of(1)
    structuredClone(ids.buffer, { transfer: [ids.buffer] })
    expect(() => post(list(1, ids))).toThrow()
  })
})

describe('what comes from a peer', () => {
  /** Every place where the exported table holds this 64-bit value gets the other one. */
  const replaced = (value: bigint, by: bigint): Uint8Array => {
    const bytes = Buffer.from(exported)
    let count = 0
    for (let at = 0; at + 8 <= bytes.length; at++) {
      if (bytes.readBigUInt64LE(at) !== value) continue
      bytes.writeBigUInt64LE(by, at)
      count += 1
    }
    expect(count).toBeGreaterThan(0)
    return bytes
  }
  const address = () => nativeMemoryOf(memory).address()

  test.each<[string, () => Uint8Array]>([
    ['a range that wraps the address space', () => replaced(address(), 2n ** 64n - 4_096n)],
    ['an address of zero', () => replaced(address(), 0n)],
    ['blocks without length', () => replaced(4_096n, 0n)],
    ['blocks longer than memory', () => replaced(4_096n, 2n ** 63n)],
    ['more blocks than there can be', () => replaced(16n, 2n ** 60n)],
  ])('a table with %s is refused', (_, bytes) => {
    let failure: unknown
    try {
      agent.importBlockTable(peer, bytes())
    } catch (error) {
      failure = (error as { failure?: { status: string } }).failure
    }
    expect(failure).toMatchObject({ status: 'messageInvalid' })
  })
})

describe('memory', () => {
  test('only memory of this addon can be registered', () => {
    for (const value of [null, {}, new Uint8Array(64), 4_096, agent]) {
      expect(() => agent.registerRegion(value as never, 0, 64)).toThrow(TypeError)
    }
  })

  test('freed memory can not be registered', () => {
    const native = new (loadBinding().Memory)(4_096, false, null)
    native.free()
    expect(() => agent.registerRegion(native, 0, 64)).toThrow()
  })

  test.each([
    [-1, 64],
    [0, 0],
    [0, 65_537],
    [65_536, 1],
    [2 ** 53, 1],
    [1, 2 ** 53 - 1],
    [0.5, 64],
  ])('the range %d + %d of 65536 bytes can not be registered', (offset, length) => {
    expect(() => agent.registerRegion(nativeMemoryOf(memory), offset, length)).toThrow()
  })

  test('registered memory is not freed', () => {
    let error: unknown
    try {
      memory.free()
    } catch (caught) {
      error = caught
    }
    expect(ConnectorError.isInstance(error) && error.code).toBe('ERR_KV_BUSY')
  })
})
