/** Shapes, patterns and whole transfers that many clauses share. */
import { createSeededRandom } from '../../testing/seeded-random.ts'
import { peerRegionSizeBytes } from '../../testing/agent-peer.ts'
import type { PeerRegion } from '../../testing/agent-peer.ts'
import type { TransferPost } from '../../transfer-agent.ts'
import { bytesOf, sideOf } from './context.ts'
import type { ClauseContext, LocalTable, RemoteTable } from './context.ts'
import { assertSameBytes } from './expect.ts'
import type { FinalCompletion } from './recorder.ts'
import { expectedAfter } from './stream-model.ts'
import type { SideModel } from './stream-model.ts'

/** Guards before and after, dense blocks. */
export const denseRegion = (blockSizeBytes: number, blockCount: number): PeerRegion => ({
  leadBytes: 192,
  blockSizeBytes,
  blockStrideBytes: blockSizeBytes,
  blockCount,
  tailBytes: 64,
})

/** Guards before, after and between the blocks. */
export const gappedRegion = (blockSizeBytes: number, blockCount: number): PeerRegion => ({
  ...denseRegion(blockSizeBytes, blockCount),
  blockStrideBytes: blockSizeBytes + 48,
})

export const patternOf = (seed: number, sizeBytes: number): Uint8Array =>
  createSeededRandom(seed).bytes(sizeBytes)

export interface Pair {
  readonly local: LocalTable
  readonly remote: RemoteTable
}

/** A local and a remote table; the same regions unless told otherwise. */
export async function createPair(
  context: ClauseContext,
  regions: readonly PeerRegion[] = [denseRegion(256, 16)],
  remoteRegions = regions,
): Promise<Pair> {
  const remote = await context.remote(remoteRegions)
  return { local: await context.local(regions), remote }
}

/** Fills all memory of both sides with different patterns; returns what the peer's memories hold. */
export async function fillPair(
  context: ClauseContext,
  { local, remote }: Pair,
  seed: number,
): Promise<Uint8Array[]> {
  local.memories.forEach((memory, index) => {
    bytesOf(memory).set(patternOf(1_000 * seed + index, memory.sizeBytes))
  })
  const patterns = remote.regions.map((region, index) =>
    patternOf(1_000 * seed + 500 + index, peerRegionSizeBytes(region)),
  )
  for (const [index, pattern] of patterns.entries()) {
    await context.wait(remote.owner.writeMemory(remote.id, index, pattern))
  }
  return patterns
}

export interface Exchange {
  readonly direction: 'read' | 'write'
  readonly local: SideModel
  readonly remote: SideModel
}

export const blocks = (...blockIds: number[]): SideModel => ({ blockIds })

export const postOf = (pair: Pair, exchange: Exchange): TransferPost => ({
  direction: exchange.direction,
  peer: pair.remote.peer,
  local: sideOf(pair.local.table, exchange.local),
  remote: sideOf(pair.remote.table, exchange.remote),
})

/** The smallest good post: block 1 of one side to block 2 of the other. */
export const smallPost = (pair: Pair, direction: 'read' | 'write' = 'read'): TransferPost =>
  postOf(pair, { direction, local: blocks(1), remote: blocks(2) })

/** Fills, transfers, and compares every byte of both sides with the model. */
export async function checkExchange(
  context: ClauseContext,
  pair: Pair,
  exchange: Exchange,
  seed = 1,
): Promise<FinalCompletion & { status: 'done' }> {
  const remoteBefore = await fillPair(context, pair, seed)
  const localBefore = pair.local.memories.map((memory) => bytesOf(memory).slice())
  const local = { regions: pair.local.regions, side: exchange.local, memories: localBefore }
  const remote = { regions: pair.remote.regions, side: exchange.remote, memories: remoteBefore }
  const isRead = exchange.direction === 'read'
  const localAfter = isRead ? expectedAfter(remote, local) : localBefore
  const remoteAfter = isRead ? remoteBefore : expectedAfter(local, remote)
  const final = await context.done(context.postOne(postOf(pair, exchange)))
  pair.local.memories.forEach((memory, index) => {
    assertSameBytes(bytesOf(memory), localAfter[index]!, `local region ${index}`)
  })
  const actual = await context.readMemories(pair.remote)
  actual.forEach((bytes, index) => {
    assertSameBytes(bytes, remoteAfter[index]!, `remote region ${index}`)
  })
  return final
}

/** After a refusal: nothing was enqueued, and the agent still works. */
export async function checkUnharmed(context: ClauseContext, pair: Pair): Promise<void> {
  await checkExchange(context, pair, { direction: 'read', local: blocks(1), remote: blocks(2) }, 77)
}
