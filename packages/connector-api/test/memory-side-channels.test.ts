import { expect, test } from 'vitest'
import {
  asEngineId,
  asIncarnation,
  ConnectorError,
  limits,
  type AnyConnectorError,
  type Association,
} from '@kvferry/connector-api'
import {
  createMemorySideChannels,
  createSeededRandom,
  createSimClock,
} from '@kvferry/connector-api/testing'

const p = asEngineId('p0')
const d = asEngineId('d0')
const identityOf = (engineId = p, life = '1') => {
  return { engineId, incarnation: asIncarnation(`${engineId}-${life}`) }
}
const bytes = (text: string): Uint8Array => new TextEncoder().encode(text)
const text = (body: Uint8Array): string => new TextDecoder().decode(body)

function createWorld(seed = 1) {
  const clock = createSimClock(seed)
  const network = createMemorySideChannels({ clock, random: createSeededRandom(seed) })
  const producer = network.open(identityOf(p))
  const consumer = network.open(identityOf(d))
  const dial = () => consumer.connect({ ...producer.address, engineId: p })
  const open = () => clock.wait(dial(), 100)
  return { clock, network, producer, consumer, dial, open }
}

const codeOf = async (promise: Promise<unknown>): Promise<string> => {
  try {
    await promise
  } catch (error) {
    if (ConnectorError.isInstance(error)) return error.code
    throw error
  }
  return 'resolved'
}

test('both ends know each other, and either may ask', async () => {
  const { clock, producer, consumer, open } = createWorld()
  const seen: Association[] = []
  producer.handle('echo', (body, from) => {
    seen.push(from)
    return bytes(`${text(body)}!`)
  })
  consumer.handle('back', async (body) => bytes(`${text(body)}?`))
  const association = await open()
  expect(association.peer).toEqual(producer.identity)
  expect(text(await clock.wait(association.request('echo', bytes('a')), 10))).toBe('a!')
  expect(seen[0]!.peer).toEqual(consumer.identity)
  expect(text(await clock.wait(seen[0]!.request('back', bytes('b')), 10))).toBe('b?')
})

test('connecting again, also at the same time, gives the same association', async () => {
  const { clock, dial } = createWorld()
  const [a, b] = await clock.wait(Promise.all([dial(), dial()]), 100)
  expect(a).toBe(b)
  expect(await clock.wait(dial(), 100)).toBe(a)
  a.close()
  expect(await clock.wait(dial(), 100)).not.toBe(a)
})

test('messages of one direction arrive in order, and bodies are copies', async () => {
  const { clock, producer, open } = createWorld(7)
  const log: string[] = []
  producer.handle('note', (body) => {
    log.push(text(body))
    return new Uint8Array()
  })
  const association = await open()
  for (let index = 0; index < 50; index += 1) {
    const body = bytes(`${index}`)
    association.send('note', body)
    body.fill(0)
  }
  await clock.runUntilIdle()
  expect(log).toEqual(Array.from({ length: 50 }, (_, index) => `${index}`))
})

test('a typed error travels with code and details; other exceptions stay at home', async () => {
  const { clock, producer, open } = createWorld()
  const leaseError = new ConnectorError('ERR_KV_LIMIT', 'full', { limit: 'x', value: 2, max: 1 })
  producer.handle('typed', () => {
    throw leaseError
  })
  producer.handle('crash', () => {
    throw new Error('secret')
  })
  const association = await open()
  const typed = await clock.wait(
    association.request('typed', bytes('')).catch((error: AnyConnectorError) => error),
    10,
  )
  expect(typed).toMatchObject({ code: 'ERR_KV_LIMIT', details: { value: 2 }, message: 'full' })
  expect(typed).not.toBe(leaseError)
  const crash = await clock.wait(
    association.request('crash', bytes('')).catch((error: Error) => error),
    10,
  )
  expect(crash).toMatchObject({ code: 'ERR_KV_MESSAGE_INVALID' })
  expect(String(crash)).not.toContain('secret')
})

test('unknown kinds are refused, second handlers and oversized bodies too', async () => {
  const { clock, producer, open } = createWorld()
  const association = await open()
  const unknown = association.request('nobody', bytes(''))
  expect(await clock.wait(codeOf(unknown), 10)).toBe('ERR_KV_MESSAGE_INVALID')
  association.send('nobody', bytes(''))
  await clock.runUntilIdle()
  expect(association.isOpen).toBe(true)
  producer.handle('once', (body) => body)
  expect(() => producer.handle('once', (body) => body)).toThrow(TypeError)
  const large = new Uint8Array(limits.frameSizeBytesMax + 1)
  expect(await codeOf(association.request('once', large))).toBe('ERR_KV_LIMIT')
})

test('a silent peer costs its timeout; the late answer is ignored', async () => {
  const { clock, producer, open } = createWorld()
  producer.handle('slow', (body) => {
    return new Promise((resolve) => clock.after(50, () => resolve(body)))
  })
  const association = await open()
  const asked = codeOf(association.request('slow', bytes(''), { timeoutMs: 10 }))
  expect(await clock.wait(asked, 20)).toBe('ERR_KV_DEADLINE')
  await clock.runUntilIdle()
  expect(association.isOpen).toBe(true)
})

test('one association carries a bounded number of requests', async () => {
  const { clock, producer, open } = createWorld()
  producer.handle('echo', (body) => body)
  const association = await open()
  const most = Array.from({ length: limits.requestsInFlightPerAssociationMax }, () =>
    association.request('echo', bytes('')),
  )
  expect(await codeOf(association.request('echo', bytes('')))).toBe('ERR_KV_LIMIT')
  await clock.wait(Promise.all(most), 100)
  await clock.wait(association.request('echo', bytes('')), 10)
})

test('nobody listening and another engine answering are told apart', async () => {
  const { clock, network, consumer } = createWorld()
  const nobody = consumer.connect({ host: '127.0.0.1', port: 9, engineId: p })
  expect(await clock.wait(codeOf(nobody), 100)).toBe('ERR_KV_PEER_UNAVAILABLE')
  const other = network.open(identityOf(asEngineId('p1')))
  const wrong = consumer.connect({ ...other.address, engineId: p })
  expect(await clock.wait(codeOf(wrong), 100)).toBe('ERR_KV_PEER_INCOMPATIBLE')
})

test('a broken connection loses what was in flight and tells both ends once', async () => {
  const { clock, network, producer, consumer, open } = createWorld()
  const log: string[] = []
  producer.onAssociationEnd(({ peer }) => log.push(`producer lost ${peer.engineId}`))
  consumer.onAssociationEnd(({ peer }) => log.push(`consumer lost ${peer.engineId}`))
  producer.handle('note', (body) => {
    log.push('arrived')
    return body
  })
  const association = await open()
  const asked = codeOf(association.request('note', bytes('')))
  network.faults.breakAssociations(p, d)
  expect(await clock.wait(asked, 10)).toBe('ERR_KV_PEER_UNAVAILABLE')
  await clock.runUntilIdle()
  expect(log.sort()).toEqual(['consumer lost p0', 'producer lost d0'])
  expect(association.isOpen).toBe(false)
  expect(await codeOf(association.request('note', bytes('')))).toBe('ERR_KV_PEER_UNAVAILABLE')
  const again = await open()
  expect(await clock.wait(codeOf(again.request('note', bytes(''))), 10)).toBe('resolved')
})

test('a partition delays and loses nothing; a call through it ends at its deadline', async () => {
  const { clock, network, producer, dial, open } = createWorld()
  const log: string[] = []
  producer.handle('note', (body) => {
    log.push(text(body))
    return body
  })
  const association = await open()
  network.faults.partition(p, d)
  association.send('note', bytes('held'))
  await clock.advance(1_000)
  expect(log).toEqual([])
  network.faults.heal(p, d)
  await clock.advance(1)
  expect(log).toEqual(['held'])
  association.close()
  await clock.advance(1)
  network.faults.partition(p, d)
  const limit = limits.sideChannelTimeoutMs + 1
  expect(await clock.wait(codeOf(dial()), limit)).toBe('ERR_KV_DEADLINE')
})

test('a killed engine hears nothing; its peers lose it; its next life is another', async () => {
  const { clock, network, producer, consumer, open, dial } = createWorld()
  const log: string[] = []
  producer.onAssociationEnd(() => log.push('producer'))
  consumer.onAssociationEnd(() => log.push('consumer'))
  producer.handle('never', () => new Promise(() => {}))
  const association = await open()
  const asked = codeOf(association.request('never', bytes('')))
  network.faults.kill(p)
  expect(await clock.wait(asked, 10)).toBe('ERR_KV_PEER_UNAVAILABLE')
  expect(log).toEqual(['consumer'])
  expect(await clock.wait(codeOf(dial()), 100)).toBe('ERR_KV_PEER_UNAVAILABLE')
  network.open(identityOf(p, '2'), { port: producer.address.port })
  const again = await clock.wait(dial(), 100)
  expect(again.peer.incarnation).toBe('p0-2')
})

test('a new life of an engine ends the associations of the old one at once', async () => {
  const { clock, network, producer, open } = createWorld()
  const seen: Association[] = []
  producer.handle('hello', (body, from) => {
    seen.push(from)
    return body
  })
  const association = await open()
  await clock.wait(association.request('hello', bytes('')), 10)
  // The network is slow to tell the producer of the death.
  network.faults.extraDelayMs = 10_000
  network.faults.kill(d)
  network.faults.extraDelayMs = 0
  const next = network.open(identityOf(d, '2'))
  await clock.advance(1)
  expect(seen[0]!.isOpen).toBe(true)
  await clock.wait(next.connect({ ...producer.address, engineId: p }), 10)
  expect(seen[0]!.isOpen).toBe(false)
})

test('a stopped engine answers after it goes on', async () => {
  const { clock, network, producer, open } = createWorld()
  producer.handle('echo', (body) => body)
  const association = await open()
  network.faults.stop(p)
  const asked = association.request('echo', bytes('a'))
  await clock.advance(100)
  network.faults.resume(p)
  expect(text(await clock.wait(asked, 10))).toBe('a')
})

test('close ends every association, on both sides, and refuses what follows', async () => {
  const { clock, producer, consumer, open, dial } = createWorld()
  const lost: string[] = []
  producer.onAssociationEnd(({ peer }) => lost.push(peer.engineId))
  consumer.onAssociationEnd(({ peer }) => lost.push(peer.engineId))
  const association = await open()
  await consumer.close()
  await consumer.close()
  await clock.runUntilIdle()
  expect(association.isOpen).toBe(false)
  expect(lost.sort()).toEqual([d, p])
  expect(await codeOf(dial())).toBe('ERR_KV_CLOSED')
})

test('an engine that lives cannot be opened twice, nor a port', () => {
  const { network, producer } = createWorld()
  expect(() => network.open(identityOf(p, '2'))).toThrow(TypeError)
  const third = identityOf(asEngineId('p3'))
  expect(() => network.open(third, { port: producer.address.port })).toThrow(RangeError)
})
