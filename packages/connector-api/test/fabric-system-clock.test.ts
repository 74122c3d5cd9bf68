// The fabric in real time, as the demo without NIXL uses it. The only file of this package that waits
// for the system's clock; it measures nothing.
import { expect, test } from 'vitest'
import type { Clock, Instant } from '@kvferry/connector-api'
import {
  createMemoryFabric,
  createPeerHost,
  createSeededRandom,
} from '@kvferry/connector-api/testing'
import { realTime, runAgentClause, type AgentHarness } from '@kvferry/connector-api/conformance'

const clock: Clock = {
  now: () => performance.now() as Instant,
  after(delayMs, callback) {
    const timer = setTimeout(callback, delayMs)
    return { stop: () => clearTimeout(timer) }
  },
}

const harness: AgentHarness = {
  unsupported: {},
  async openWorld() {
    const fabric = createMemoryFabric({ clock, random: createSeededRandom(3) })
    const { allocator, kernels, faults } = fabric
    let count = 0
    const createPeer = async () => {
      count += 1
      return createPeerHost({ agent: fabric.createAgent(`peer-${count}`), allocator })
    }
    return {
      agent: fabric.createAgent('agent'),
      allocator,
      kernels,
      time: realTime(clock),
      peer: await createPeer(),
      createPeer,
      killPeer: async ({ name }) => faults.kill(name),
      stallPeer: async ({ name }) => faults.stall(name),
      resumePeer: async ({ name }) => faults.unstall(name),
    }
  },
  closeWorld: async () => {},
  close: async () => {},
}

test.each(['A4.1', 'A5.3', 'A6.1', 'A6.6', 'A8.1', 'A9.2', 'A10.5'] as const)(
  '%s holds in real time',
  async (clause) => {
    expect(await runAgentClause(clause, harness)).toEqual({ kind: 'passed' })
  },
)

test('realTime gives up on what never settles', async () => {
  const time = realTime(clock)
  await expect(time.wait(new Promise(() => {}), 5)).rejects.toThrow('not settled')
  expect(await time.wait(Promise.resolve(7), 5)).toBe(7)
})
