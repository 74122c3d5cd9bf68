import {
  asEngineId,
  asIncarnation,
  type Association,
  type PeerHandle,
  type WorkerComponents,
} from '@kvferry/connector-api'
import { createSimClock } from '@kvferry/connector-api/testing'
import { expect, test } from 'vitest'
import {
  ConsumerPeers,
  type ConsumerPeer,
  type HandshakeRequest,
} from '@kvferry/connector-api/remote-writes'

const peer = { engineId: asEngineId('d0'), incarnation: asIncarnation('d0-1') }
const open = (): Association & { isOpen: boolean } => ({
  ...{ peer, isOpen: true, request: () => Promise.reject(new Error('no')) },
  ...{ send() {}, flush() {}, close() {} },
})
const request = (token: number): HandshakeRequest => ({
  ...{ rank: 0, facts: {} as HandshakeRequest['facts'], agentName: 'd0/d0-1' },
  ...{ agentMetadata: new Uint8Array(), blockTable: new Uint8Array() },
  token: Uint8Array.of(token),
})

function createPeers(removes: () => Promise<void> = async () => {}) {
  const clock = createSimClock()
  const warned: string[] = []
  const gone: ConsumerPeer[] = []
  const removed: PeerHandle[] = []
  const agent = {
    addPeer: async () => 1,
    importBlockTable: () => 2,
    describeBlockTable: () => ({ blockCount: 8 }),
    removePeer: (handle: PeerHandle) => {
      removed.push(handle)
      return removes()
    },
  }
  const logger = { warn: (message: string) => warned.push(message) }
  const components = { agent, clock, logger, sideChannel: { onAssociationEnd() {} } }
  const peers = new ConsumerPeers({
    components: components as unknown as WorkerComponents,
    protocol: 'push',
    rank: 0,
    onGone: (one) => gone.push(one),
    hasOpenWrites: () => false,
  })
  return { peers, gone, removed, clock, warned }
}

test('a consumer that shakes hands again may have another token: WRITEs carry that one', async () => {
  const { peers } = createPeers()
  await peers.introduce(request(1), open())
  await peers.introduce(request(2), open())
  expect(peers.of(peer, 0)?.token).toEqual(Uint8Array.of(2))
})

test('a known consumer whose new association has ended in its turn is gone', async () => {
  const { peers, gone, removed } = createPeers()
  await peers.introduce(request(1), open())
  const known = peers.of(peer, 0)
  const second = open()
  const introduced = peers.introduce(request(1), second)
  second.isOpen = false
  await introduced
  await peers.close(1_000)
  expect(gone).toEqual([known])
  expect(removed).toEqual([1])
  expect(peers.of(peer, 0)).toBe(null)
})

test('a new life of a consumer, where the end of the former one was not heard: that one is gone, and its peer', async () => {
  const { peers, gone, removed } = createPeers()
  await peers.introduce(request(1), open())
  const known = peers.of(peer, 0)
  const next = { ...peer, incarnation: asIncarnation('d0-2') }
  await peers.introduce(request(1), { ...open(), peer: next })
  expect(gone).toEqual([known])
  expect(removed).toEqual([1])
  expect([peers.of(peer, 0), peers.of(next, 0)?.identity]).toEqual([null, next])
})

test('an agent that does not remove its peers holds up the shutdown up to its deadline, and no timer is left', async () => {
  const { peers, clock, warned } = createPeers(() => new Promise(() => {}))
  await peers.introduce(request(1), open())
  let isClosed = false
  void peers.close(1_000).then(() => (isClosed = true))
  await clock.advance(999)
  expect(isClosed).toBe(false)
  await clock.advance(1)
  expect(isClosed).toBe(true)
  expect(warned).toHaveLength(1)
  expect(clock.pendingCount).toBe(0)
})
