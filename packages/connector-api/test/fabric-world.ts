/** Two agents of a slow fabric, a table on each side, and everything their listeners hear. */
import type {
  AgentListener,
  AnyConnectorError,
  KvMemory,
  TransferAgent,
  TransferCompletion,
} from '@kvferry/connector-api'
import {
  createMemoryFabric,
  createSeededRandom,
  createSimClock,
  type FabricTimes,
} from '@kvferry/connector-api/testing'

const blockBytes = 65_536
const blockCount = 8
export const sizeBytes = blockBytes * blockCount
/** Half a megabyte takes 8 virtual ms, so that there is a middle. */
const slow: Partial<FabricTimes> = { bandwidthBytesPerMs: 65_536 }

interface Side {
  readonly agent: TransferAgent
  readonly memory: KvMemory
  readonly table: ReturnType<TransferAgent['declareBlockTable']>
  readonly region: Awaited<ReturnType<TransferAgent['registerRegion']>>
  readonly completions: TransferCompletion[]
  readonly messages: string[]
  readonly broken: AnyConnectorError[]
}

export async function createWorld(seed = 1, times: Partial<FabricTimes> = slow) {
  const clock = createSimClock(seed)
  const fabric = createMemoryFabric({ clock, random: createSeededRandom(seed), ...times })
  async function createSide(name: string, fill: number): Promise<Side> {
    const agent = fabric.createAgent(name)
    const memory = fabric.allocator.allocate({ sizeBytes })
    memory.bytes!.fill(fill)
    const region = await clock.wait(
      agent.registerRegion({ memory, offsetBytes: 0, lengthBytes: sizeBytes }),
      10,
    )
    const layout = { blockSizeBytes: blockBytes, blockStrideBytes: blockBytes, blockCount }
    const table = agent.declareBlockTable([{ region, offsetBytes: 0, ...layout }])
    const completions: TransferCompletion[] = []
    const messages: string[] = []
    const broken: AnyConnectorError[] = []
    const listener: AgentListener = {
      onCompletions: (batch) => completions.push(...batch),
      onNotifications: (batch) =>
        messages.push(
          ...batch.map(({ from, message }) => `${from}: ${new TextDecoder().decode(message)}`),
        ),
      onBroken: (error) => broken.push(error),
    }
    agent.setListener(listener)
    return { agent, memory, table, region, completions, messages, broken }
  }
  const local = await createSide('local', 1)
  const remote = await createSide('remote', 2)
  remote.agent.expectNotifications(true)
  const metadata = await clock.wait(remote.agent.localMetadata(), 10)
  const peer = await clock.wait(local.agent.addPeer({ metadata, expectedName: 'remote' }), 10)
  const remoteTable = local.agent.importBlockTable(
    peer,
    remote.agent.exportBlockTable(remote.table),
  )
  const blockIds = Uint32Array.from({ length: blockCount }, (_, index) => index)
  const post = (direction: 'read' | 'write', text?: string) => {
    const [transfer] = local.agent.post([
      {
        direction,
        peer,
        local: { table: local.table, blockIds },
        remote: { table: remoteTable, blockIds },
        deadlineMs: 1_000,
        ...(text === undefined ? {} : { notification: new TextEncoder().encode(text) }),
      },
    ])
    return transfer!
  }
  return { clock, fabric, local, remote, peer, remoteTable, post }
}

export const countOf = (bytes: Uint8Array, value: number): number =>
  bytes.reduce((count, byte) => count + (byte === value ? 1 : 0), 0)
