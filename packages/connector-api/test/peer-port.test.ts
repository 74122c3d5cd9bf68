import { MessageChannel, type MessagePort } from 'node:worker_threads'
import { expect, test } from 'vitest'
import {
  connectPeer,
  createMemoryFabric,
  createPeerHost,
  createSeededRandom,
  createSimClock,
  servePeer,
  type PeerPort,
} from '@kvferry/connector-api/testing'

const portOf = (port: MessagePort): PeerPort => ({
  send: (message) => port.postMessage(message),
  onMessage: (listener) => void port.on('message', listener),
})

test('a peer behind a message port answers as it does in place, errors included', async () => {
  const clock = createSimClock()
  const fabric = createMemoryFabric({ clock, random: createSeededRandom(1) })
  const { allocator } = fabric
  const host = createPeerHost({ agent: fabric.createAgent('far'), allocator })
  const { port1, port2 } = new MessageChannel()
  try {
    const connecting = connectPeer(portOf(port1))
    servePeer(host, portOf(port2))
    const peer = await connecting
    expect(peer.name).toBe('far')
    const region = {
      leadBytes: 8,
      blockSizeBytes: 16,
      blockStrideBytes: 16,
      blockCount: 2,
      tailBytes: 4,
    }
    const declared = peer.declareTable([region])
    // Registration takes virtual time; the answer comes through the port in real time.
    let isAnswered = false
    void declared.then(() => (isAnswered = true))
    while (!isAnswered) await clock.advance(1)
    const { id, exported } = await declared
    expect(exported).toBeInstanceOf(Uint8Array)
    const bytes = Uint8Array.from({ length: 44 }, (_, index) => index)
    await peer.writeMemory(id, 0, bytes)
    expect(await peer.readMemory(id, 0)).toEqual(bytes)
    await expect(peer.readMemory(id, 1)).rejects.toThrow('peer: no region 1')
    await expect(peer.notify([bytes])).rejects.toThrow('connect comes before notify')
  } finally {
    port1.close()
  }
})
