/**
 * What an agent sees when the process at the other end dies or stops in the middle of a transfer. The
 * transport is chosen for the whole process of the test, so each has a test file of its own.
 */
import type { PeerHandle, TransferAgent, TransferCompletion } from '@kvferry/connector-api'
import { connectPeer, type AgentPeer } from '@kvferry/connector-api/testing'
import { createHostAllocator, createNixlAgent } from '../src/index.ts'
import { Fixture } from './children.ts'

/** Long enough to be in the middle of it: tens of milliseconds on the fastest path. */
export const blockSizeBytes = 128 * 1_048_576

export interface Pair {
  readonly agent: TransferAgent
  readonly child: Fixture
  readonly remote: AgentPeer
  readonly peer: PeerHandle
  /** The local block, zero until something is read. */
  readonly bytes: Uint8Array
  post(direction: 'read' | 'write', deadlineMs?: number): void
  /** Completions so far, in order. */
  readonly completions: readonly TransferCompletion[]
  until(isMet: () => boolean, limitMs?: number): Promise<void>
  close(): Promise<void>
}

let pairCount = 0

/** An agent here, one in another process, and a block of each; wired up by one small transfer. */
export async function openPair(environment: Readonly<Record<string, string>>): Promise<Pair> {
  pairCount += 1
  const name = `loss-${process.pid}-${pairCount}`
  const child = new Fixture('peer-process', { environment, parameters: [`${name}-peer`] })
  const remote = await Promise.race([connectPeer(child.port), child.ended()])
  const region = { leadBytes: 0, blockSizeBytes, blockStrideBytes: blockSizeBytes, blockCount: 1 }
  const remoteTable = await remote.declareTable([{ ...region, tailBytes: 4_096 }])
  await remote.expectNotifications(true)

  const agent = await createNixlAgent({ name, env: environment })
  const memory = createHostAllocator({ hugePages: false }).allocate({ sizeBytes: blockSizeBytes })
  const bytes = memory.bytes!
  const completions: TransferCompletion[] = []
  let wake = () => {}
  agent.setListener({
    onCompletions(batch) {
      completions.push(...batch)
      wake()
    },
    onNotifications() {},
    onBroken(error) {
      throw error
    },
  })
  const own = await agent.registerRegion({ memory, offsetBytes: 0, lengthBytes: blockSizeBytes })
  const { leadBytes: offsetBytes, ...layout } = region
  const table = agent.declareBlockTable([{ region: own, offsetBytes, ...layout }])
  const peer = await agent.addPeer({ metadata: remoteTable.metadata, expectedName: remote.name })
  const imported = agent.importBlockTable(peer, remoteTable.exported)

  const until = async (isMet: () => boolean, limitMs = 60_000) => {
    const end = performance.now() + limitMs
    while (!isMet()) {
      if (performance.now() > end) throw new Error(`not within ${limitMs} ms`)
      await new Promise<void>((resolve) => {
        wake = resolve
        setTimeout(resolve, 1)
      })
    }
  }
  const small = (id: number) => ({
    table: id,
    regions: Uint32Array.of(0),
    offsets: Float64Array.of(0),
    lengths: Float64Array.of(8),
  })
  agent.post([{ direction: 'read', peer, local: small(table), remote: small(imported) }] as never)
  await until(() => completions.length === 1)
  completions.length = 0
  return {
    agent,
    child,
    remote,
    peer,
    bytes,
    completions,
    until,
    post(direction, deadlineMs) {
      const blockIds = Uint32Array.of(0)
      const sides = { local: { table, blockIds }, remote: { table: imported, blockIds } }
      agent.post([{ direction, peer, ...sides, ...(deadlineMs ? { deadlineMs } : {}) }])
    },
    async close() {
      await child.kill()
      await agent.close({ deadlineMs: 5_000 })
      memory.free()
    },
  }
}
