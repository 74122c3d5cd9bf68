/**
 * One of the two processes between which the doctor moves a block. The target lends its memory and
 * watches; the initiator reads block 0 of it, checks, and writes block 1, whose arrival the target
 * checks. Started by doctor.ts with an IPC channel; ends with it.
 */
import type { TransferAgent, TransferCompletion, TransferPost } from '@kvferry/connector-api'
import { createNixlAgent } from '../create-agent.ts'
import { createHostAllocator } from '../host-memory.ts'
import { agentTransports } from '../transports.ts'
import {
  blockCount,
  blockSizeBytes,
  fillBlock,
  isBlockRight,
  type SideMessage,
  type SideName,
  type SideOrder,
} from './block.ts'

async function openSide(name: SideName) {
  const agent = await createNixlAgent({ name: `doctor-${name}-${process.pid}` })
  const memory = createHostAllocator().allocate({ sizeBytes: blockCount * blockSizeBytes })
  const bytes = memory.bytes
  if (bytes === null) throw new Error('host memory without a view')
  const region = await agent.registerRegion({
    memory,
    offsetBytes: 0,
    lengthBytes: memory.sizeBytes,
  })
  const table = agent.declareBlockTable([
    {
      region,
      offsetBytes: 0,
      blockSizeBytes,
      blockStrideBytes: blockSizeBytes,
      blockCount,
    },
  ])
  return { agent, bytes, table }
}

type Side = Awaited<ReturnType<typeof openSide>>

function tell(message: SideMessage): void {
  process.send?.(message)
}

async function runTarget({ agent, bytes, table }: Side): Promise<void> {
  fillBlock(bytes, 0, 'target')
  agent.setListener({
    onCompletions() {},
    onNotifications() {
      tell({ kind: 'arrived', isRight: isBlockRight(bytes, 1, 'initiator') })
    },
    onBroken: fail,
  })
  agent.expectNotifications(true)
  tell({
    kind: 'ready',
    name: agent.name,
    metadata: await agent.localMetadata(),
    exported: agent.exportBlockTable(table),
  })
}

/** Posts one transfer and waits for its final status. */
function transfer(agent: TransferAgent, post: TransferPost): Promise<TransferCompletion> {
  return new Promise((resolve, reject) => {
    agent.setListener({
      onCompletions: ([completion]) => completion && resolve(completion),
      onNotifications() {},
      onBroken: reject,
    })
    agent.post([post])
  })
}

async function runInitiator({ agent, bytes, table }: Side, order: SideOrder): Promise<void> {
  const { name: expectedName, metadata, exported } = order
  const peer = await agent.addPeer({ metadata, expectedName })
  const remoteTable = agent.importBlockTable(peer, exported)
  const sides = (id: number) => ({
    peer,
    local: { table, blockIds: Uint32Array.of(id) },
    remote: { table: remoteTable, blockIds: Uint32Array.of(id) },
  })
  const read = await transfer(agent, { direction: 'read', ...sides(0) })
  if (read.status !== 'done') throw read.error
  fillBlock(bytes, 1, 'initiator')
  const notification = Uint8Array.of(1)
  const write = await transfer(agent, { direction: 'write', ...sides(1), notification })
  if (write.status !== 'done') throw write.error
  tell({
    kind: 'moved',
    isReadRight: isBlockRight(bytes, 0, 'target'),
    readUs: read.times.wireUs,
    writeUs: write.times.wireUs,
    transports: agentTransports(agent),
  })
}

function fail(error: unknown): void {
  tell({ kind: 'failed', reason: error instanceof Error ? error.message : String(error) })
}

/** Runs until the parent closes the channel. */
export async function runSide(name: SideName): Promise<void> {
  if (process.send === undefined) throw new Error('doctor-side is started by doctor only')
  process.on('disconnect', () => process.exit())
  try {
    const side = await openSide(name)
    if (name === 'target') await runTarget(side)
    else {
      process.on('message', (order: SideOrder) => void runInitiator(side, order).catch(fail))
      tell({ kind: 'waiting' })
    }
  } catch (error) {
    fail(error)
  }
}
