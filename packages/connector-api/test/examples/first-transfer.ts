import {
  createMemoryFabric,
  createSeededRandom,
  createSimClock,
} from '@kvferry/connector-api/testing'

const clock = createSimClock()
const fabric = createMemoryFabric({ clock, random: createSeededRandom(1) })
const layout = { offsetBytes: 0, blockSizeBytes: 4_096, blockStrideBytes: 4_096, blockCount: 16 }

async function open(name: string) {
  const agent = fabric.createAgent(name)
  const memory = fabric.allocator.allocate({ sizeBytes: 65_536 })
  const range = { memory, offsetBytes: 0, lengthBytes: 65_536 }
  const region = await clock.wait(agent.registerRegion(range), 10)
  return { agent, memory, table: agent.declareBlockTable([{ region, ...layout }]) }
}
const prefill = await open('prefill')
const decode = await open('decode')

prefill.memory.bytes!.fill(7) // the KV cache of a prompt
prefill.agent.expectNotifications(true) // a target has to look at the network
const metadata = await clock.wait(prefill.agent.localMetadata(), 10)
const peer = await clock.wait(decode.agent.addPeer({ metadata, expectedName: 'prefill' }), 10)
const exported = prefill.agent.exportBlockTable(prefill.table)
const remote = { table: decode.agent.importBlockTable(peer, exported) }

decode.agent.post([
  {
    direction: 'read',
    peer,
    local: { table: decode.table, blockIds: Uint32Array.of(3, 4, 9) },
    remote: { ...remote, blockIds: Uint32Array.of(0, 1, 2) },
  },
])
await clock.wait(decode.agent.drain({ deadlineMs: 1_000 }), 1_000)
console.log('byte 0 of block 9 is', decode.memory.bytes![9 * 4_096]) // 7
