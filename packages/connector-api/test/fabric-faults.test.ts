// What can be made to go wrong in the fabric, on request and by limits.
import { expect, test } from 'vitest'
import { ConnectorError, limits, type AnyConnectorError } from '@kvferry/connector-api'
import { countOf, createWorld, sizeBytes } from './fabric-world.ts'

test('a target that looks away hangs its peers until it looks again', async () => {
  const { clock, remote, post, local } = await createWorld()
  remote.agent.expectNotifications(false)
  post('read', 'hello')
  await clock.advance(500)
  expect(local.completions).toEqual([])
  expect(countOf(local.memory.bytes!, 2)).toBe(0)
  remote.agent.expectNotifications(true)
  await clock.advance(50)
  expect(local.completions.map(({ status }) => status)).toEqual(['done'])
  expect(remote.messages).toEqual(['local: hello'])
})

test('with one-sided copies a target need not look, except for its notifications', async () => {
  const { clock, remote, post, local } = await createWorld(1, { isTargetPollingNeeded: false })
  remote.agent.expectNotifications(false)
  post('read', 'hello')
  await clock.advance(50)
  expect(local.completions.map(({ status }) => status)).toEqual(['done'])
  expect(remote.messages).toEqual([])
  remote.agent.expectNotifications(true)
  await clock.advance(1)
  expect(remote.messages).toEqual(['local: hello'])
})

test('a stopped target makes transfers overdue, and they end once it goes on', async () => {
  const { clock, fabric, post, local } = await createWorld()
  fabric.faults.stop('remote')
  const transfer = post('read')
  await clock.advance(1_500)
  expect(local.completions).toMatchObject([{ transfer, status: 'overdue' }])
  fabric.faults.resume('remote')
  await clock.advance(100)
  expect(local.completions.map(({ status }) => status)).toEqual(['overdue', 'done'])
})

test('a stopped initiator moves nothing and hears nothing until it goes on', async () => {
  const { clock, fabric, post, local } = await createWorld()
  const read = () => countOf(local.memory.bytes!, 2)
  post('read')
  await clock.advance(4)
  fabric.faults.stop('local')
  const before = read()
  expect(before).toBeGreaterThan(0)
  await clock.advance(100)
  expect(read()).toBe(before)
  fabric.faults.resume('local')
  await clock.runUntil(() => read() === sizeBytes, 100)
  // All is there, but its thread has not looked yet.
  fabric.faults.stop('local')
  expect(local.completions).toEqual([])
  await clock.advance(100)
  expect(local.completions).toEqual([])
  fabric.faults.resume('local')
  await clock.advance(1)
  expect(local.completions.map(({ status }) => status)).toEqual(['done'])
})

test('failNextPosts fails that many, each after a part of its bytes', async () => {
  const { clock, fabric, post, local } = await createWorld()
  fabric.faults.failNextPosts('local', 2)
  for (let index = 0; index < 3; index += 1) post('read')
  await clock.advance(100)
  const statuses = local.completions.map(({ status }) => status).sort()
  expect(statuses).toEqual(['done', 'failed', 'failed'])
})

test('a broken agent says so once, refuses everything, and its transfers stay in doubt', async () => {
  const { clock, fabric, post, local } = await createWorld()
  post('read')
  await clock.advance(2)
  const error = new ConnectorError('ERR_NIXL', 'gone', { operation: 'poll', status: 'gone' })
  fabric.faults.break('local', error as AnyConnectorError)
  await clock.advance(100)
  expect(local.broken).toEqual([error])
  expect(local.completions).toEqual([])
  expect(() => post('read')).toThrow(expect.objectContaining({ code: 'ERR_NIXL' }))
  expect(countOf(local.memory.bytes!, 2)).toBe(sizeBytes)
})

test('notifications can be forged, lost and doubled', async () => {
  const { clock, fabric, remote, post } = await createWorld(1, {})
  const message = new TextEncoder().encode('read-done')
  fabric.forge('remote', { from: 'somebody', message })
  await clock.advance(1)
  expect(remote.messages).toEqual(['somebody: read-done'])
  fabric.faults.notifications.lossChance = 1
  post('write', 'lost')
  await clock.advance(10)
  expect(remote.messages).toHaveLength(1)
  fabric.faults.notifications.lossChance = 0
  fabric.faults.notifications.duplicateChance = 1
  post('write', 'twice')
  await clock.advance(10)
  expect(remote.messages.slice(1)).toEqual(['local: twice', 'local: twice'])
})

test('a notification may be lost with its sender', async () => {
  const outcomes = new Set<number>()
  for (let seed = 1; seed <= 12; seed += 1) {
    const { clock, fabric, remote, post, local } = await createWorld(seed, {})
    fabric.faults.notifications.extraDelayMs = 50
    post('write', 'last words')
    await clock.runUntil(() => local.completions.length > 0, 100)
    fabric.faults.kill('local')
    await clock.runUntilIdle()
    outcomes.add(remote.messages.length)
  }
  expect([...outcomes].sort()).toEqual([0, 1])
})

test('beyond the backlog the oldest notifications are dropped and counted', async () => {
  const { clock, fabric, remote } = await createWorld(1, {})
  remote.agent.expectNotifications(false)
  const message = new Uint8Array(1)
  for (let index = 0; index < limits.notificationBacklogMax + 3; index += 1) {
    fabric.forge('remote', { from: `${index}`, message })
  }
  remote.agent.expectNotifications(true)
  await clock.advance(1)
  expect(remote.messages).toHaveLength(limits.notificationBacklogMax)
  expect(remote.messages[0]!.startsWith('3:')).toBe(true)
  expect(remote.agent.counters().notificationsDropped).toBe(3)
})

test('too many overdue transfers: new posts are refused', async () => {
  const { clock, fabric, post } = await createWorld(1, {})
  fabric.faults.stall('remote')
  for (let index = 0; index < limits.drainingTransferCountMax; index += 1) post('read')
  await clock.advance(1_100)
  expect(() => post('read')).toThrow(
    expect.objectContaining({
      code: 'ERR_KV_LIMIT',
      details: expect.objectContaining({ limit: 'drainingTransferCountMax' }),
    }),
  )
})

test('a name is taken while its agent lives, and another life has another identity', async () => {
  const { clock, fabric, local, peer, remoteTable } = await createWorld()
  expect(() => fabric.createAgent('remote')).toThrow(RangeError)
  fabric.faults.kill('remote')
  const next = fabric.createAgent('remote')
  const metadata = await clock.wait(next.localMetadata(), 10)
  const again = await clock.wait(local.agent.addPeer({ metadata, expectedName: 'remote' }), 10)
  expect(again).not.toBe(peer)
  expect(() => local.agent.describeBlockTable(remoteTable)).toThrow(RangeError)
  expect(() => fabric.createAgent('')).toThrow(RangeError)
  expect(() => fabric.createAgent('x'.repeat(limits.idSizeBytesMax + 1))).toThrow(RangeError)
  expect(() => fabric.faults.kill('nobody')).toThrow(RangeError)
})

test('the same seed gives the same history, another seed another', async () => {
  const historyOf = async (seed: number): Promise<string> => {
    const { clock, fabric, local, remote, post } = await createWorld(seed)
    for (let index = 0; index < 4; index += 1) post(index % 2 === 0 ? 'read' : 'write', `${index}`)
    await clock.advance(2)
    fabric.faults.kill('remote')
    await clock.runUntilIdle()
    const log = local.completions.map(({ transfer, status }) => `${transfer} ${status}`)
    return [...log, ...remote.messages, countOf(remote.memory.bytes!, 1), clock.now()].join('\n')
  }
  expect(await historyOf(5)).toBe(await historyOf(5))
  expect(await historyOf(5)).not.toBe(await historyOf(6))
})

test('an idle fabric sets no timers', async () => {
  const { clock, post } = await createWorld()
  post('read')
  await clock.advance(100)
  expect(clock.pendingCount).toBe(0)
})
