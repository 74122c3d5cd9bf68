/** The table of tickets by itself: what history does with released blocks, and what is remembered. */
import { asRequestId, type AnyConnectorError } from '@kvferry/connector-api'
import type { ConsumerPeer, Registration } from '@kvferry/connector-api/remote-writes'
import { createWorld, Engine } from '@kvferry/connector-api/testing'
import { expect, test } from 'vitest'
import { xavier } from '../src/index.ts'
import { parseXavierOptions } from '../src/options.ts'
import { TicketTable } from '../src/ticket-table.ts'
import type { TicketTableOptions } from '../src/ticket-table-options.ts'
import { createCounters } from '../src/xavier-counters.ts'

const requestId = asRequestId('r')
const prompt = { tokenCount: 8, digest: new Uint8Array(32) }
const peer = { identity: { engineId: 'd0', incarnation: 'one' }, rank: 0 } as ConsumerPeer

function tableWith(retain: TicketTableOptions['retain']): TicketTable {
  const engine = new Engine(createWorld({ factory: xavier }), { engineId: 'p0' })
  const { clock } = engine.world
  const table = new TicketTable({
    ...{ protocol: 'xavier', counters: createCounters(), options: parseXavierOptions({}), retain },
    publish: null,
    components: { clock, config: {}, metrics: { add() {}, set() {} } } as never,
    ...{
      cache: { caches: { regions: [] } } as never,
      transferDeadlineMs: 1,
      onChange() {},
      onWriteEnd() {},
    },
  })
  table.announce(requestId, 'ticket')
  // Of its 8 tokens history keeps 7: both blocks, the second one partly.
  table.hold(requestId, prompt, Uint32Array.of(4, 2), new Uint8Array(64))
  return table
}
const release = (table: TicketTable): void => table.release({ rank: 0, transferId: 'ticket' }, peer)

test('history is offered what was released, once, and the blocks wait for its end', async () => {
  const offered: number[][] = []
  let end = (): void => undefined
  const table = tableWith(({ blockIds }) => {
    offered.push([...blockIds])
    return new Promise((resolve) => (end = resolve))
  })
  release(table)
  release(table)
  expect(offered).toEqual([[4, 2]])
  expect([table.heldCount, table.takeSent()]).toEqual([1, []])
  end()
  await Promise.resolve()
  expect([table.heldCount, table.takeSent(), table.takeSent()]).toEqual([0, [requestId], []])
})

test('history that copies nothing, and none at all: the blocks are free at once', () => {
  for (const retain of [null, () => null]) {
    const table = tableWith(retain)
    release(table)
    expect([table.heldCount, table.takeSent()]).toEqual([0, [requestId]])
  }
})

test('what is unknown is refused as expired, and withdrawn at once', async () => {
  const table = tableWith(null)
  const facts = { blockTokens: 4 }
  const stranger = { ...peer, facts, blockCount: 9 } as ConsumerPeer
  const registration: Registration = {
    ...{ rank: 0, loadId: 1, transferId: 'other', firstToken: 0, tokenCount: 8 },
    ...{ promptDigest: prompt.digest, blockIds: Uint32Array.of(1, 2) },
  }
  const refusal: AnyConnectorError | null = table.register(registration, stranger)
  expect(refusal?.code).toBe('ERR_KV_LEASE_EXPIRED')
  expect(await table.withdraw(registration, peer)).toBe('withdrawn')
  // A withdrawal that came first: its registration isn't taken on afterwards.
  const known = { ...registration, transferId: 'ticket' }
  expect(await table.withdraw(known, peer)).toBe('withdrawn')
  expect(table.register(known, stranger)?.code).toBe('ERR_KV_CLOSED')
})
