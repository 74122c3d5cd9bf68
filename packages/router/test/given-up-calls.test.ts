/** How the connection of a call ends that is given up: what the engine at its other end sees of it. */
import { setMaxListeners } from 'node:events'
import { createServer as createPlainServer, type RequestListener } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo, Server, Socket } from 'node:net'
import { describe, expect, it, onTestFinished } from 'vitest'
import { createSystemClock } from '@kvferry/runtime'
import { buildConnector } from 'undici'
import { EngineClient, type EngineAnswer } from '../src/engine-client.ts'
import { routerLimits } from '../src/limits.ts'
import { createResettingConnection } from '../src/resetting-connection.ts'
import type { Leg } from '../src/router-error.ts'
import { eventually, loopTurns } from './support/router-fixture.ts'

interface Listening {
  readonly url: string
  /** Of each connection that has ended, in order of arrival: whether it was reset. */
  readonly resets: Map<number, boolean>
  connectionCount(): number
}

async function listen(
  server: Server & { closeAllConnections(): void },
  event: 'connection' | 'secureConnection',
): Promise<Listening> {
  const resets = new Map<number, boolean>()
  let connectionCount = 0
  server.on(event, (socket: Socket) => {
    const number = connectionCount++
    socket.on('close', (wasReset: boolean) => resets.set(number, wasReset))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  onTestFinished(() => server.closeAllConnections())
  const { port } = server.address() as AddressInfo
  const scheme = event === 'connection' ? 'http' : 'https'
  const connections = () => connectionCount
  return { url: `${scheme}://127.0.0.1:${port}`, resets, connectionCount: connections }
}

/** An engine, and the router's client of it. */
async function serve(behaviour: RequestListener, leg: Leg = 'prefill') {
  const asked: string[] = []
  const server = createPlainServer((request, response) => {
    asked.push(request.url ?? '')
    behaviour(request, response)
  })
  const listening = await listen(server, 'connection')
  const client = new EngineClient(listening.url, {
    ...{ leg, clock: createSystemClock(), connectMs: 10_000 },
  })
  onTestFinished(() => client.close())
  const call = (path: string, onStart?: (giveUp: () => void) => void) => {
    const controller = new AbortController()
    const giveUp = (): void => controller.abort(new Error('given up'))
    const { signal } = controller
    const start = onStart === undefined ? {} : { onStart: () => onStart(giveUp) }
    const answer = client.send({ method: 'POST', path, body: '{}', signal, ...start })
    answer.catch(() => {})
    return { answer, giveUp }
  }
  return { ...listening, asked, call, client }
}

/** Read to its end; its connection is free for the next call. */
async function whole(answer: Promise<EngineAnswer>): Promise<void> {
  await (await answer).body.dump()
  await loopTurns()
}

const answered: RequestListener = (_request, response) => void response.end('{}')
const silent: RequestListener = () => {}
/** By path: the first part of an answer, no answer, or all of it. */
const various: RequestListener = (request, response) => {
  if (request.url === '/half') response.writeHead(200, { 'content-length': '10' }).write('12345')
  else if (request.url === '/whole') response.end('{}')
}

describe('a call to a prefill engine that is given up resets its connection', () => {
  it('before there is an answer', async () => {
    const { asked, call, resets } = await serve(silent)
    const { giveUp } = call('/')
    await eventually(() => asked.length === 1)
    giveUp()
    await eventually(() => resets.size === 1)
    expect(resets.get(0)).toBe(true)
  })

  it('also when the answer is written in that moment, before the engine has seen anything of it', async () => {
    const answers: (() => void)[] = []
    const { call, resets } = await serve((_request, response) => {
      answers.push(() => void response.end('{}'))
    })
    const { giveUp } = call('/')
    await eventually(() => answers.length === 1)
    giveUp()
    // The connection is closed in this turn, and the engine hears of it in the next one.
    await Promise.resolve()
    answers[0]!()
    await eventually(() => resets.size === 1)
    expect(resets.get(0)).toBe(true)
  })

  it.each(['by its signal', 'by who reads it'])('in the middle of its answer, %s', async (how) => {
    const { call, resets } = await serve(various)
    const { answer, giveUp } = call('/half')
    const { body } = await answer
    body.on('error', () => {})
    const chunks = (body as AsyncIterable<Buffer>)[Symbol.asyncIterator]()
    // All that was sent is read, so that it isn't TCP that resets it.
    expect(String((await chunks.next()).value)).toBe('12345')
    if (how === 'by its signal') giveUp()
    else await chunks.return?.()
    await eventually(() => resets.size === 1)
    expect(resets.get(0)).toBe(true)
  })

  it('and no other: neither one that goes on, nor the next one to the same engine', async () => {
    const { asked, call, connectionCount, resets } = await serve(various)
    const [given, kept] = [call('/'), call('/half')]
    await eventually(() => asked.length === 2)
    given.giveUp()
    await eventually(() => resets.size === 1)
    const { body } = await kept.answer
    body.on('error', () => {})
    expect(await call('/whole').answer).toMatchObject({ statusCode: 200 })
    expect([connectionCount(), [...resets.values()]]).toEqual([3, [true]])
    expect(body.destroyed).toBe(false)
  })
})

describe('a connection to a prefill engine ends in order', () => {
  it('when all of its answers were read; they share it', async () => {
    const { call, connectionCount, resets, url } = await serve(answered)
    for (const path of ['/1', '/2']) await whole(call(path).answer)
    expect([connectionCount(), resets.size]).toEqual([1, 0])
    const another = new EngineClient(url, {
      ...({ leg: 'prefill', clock: createSystemClock(), connectMs: 10_000 } as const),
    })
    const { signal } = new AbortController()
    await whole(another.send({ method: 'POST', path: '/3', body: '{}', signal }))
    await another.close()
    await eventually(() => resets.size === 1)
    expect(resets.get(1)).toBe(false)
  })

  it('when a call is given up before it is written: the answer before it was read', async () => {
    const { asked, call, resets } = await serve(answered)
    await whole(call('/1').answer)
    const second = call('/2', (giveUp) => giveUp())
    await expect(second.answer).rejects.toThrow('given up')
    await eventually(() => resets.size === 1)
    expect([asked, resets.get(0)]).toEqual([['/1'], false])
  })
})

it('a call to a decode engine that is given up is closed in order: what it was asked it can read to the end', async () => {
  const { asked, call, resets } = await serve(silent, 'decode')
  const { giveUp } = call('/')
  await eventually(() => asked.length === 1)
  giveUp()
  await eventually(() => resets.size === 1)
  expect(resets.get(0)).toBe(false)
})

it('over TLS a call that is given up is closed, and the next one is served', async () => {
  // With a key that both know: no certificate is needed.
  const shared = { psk: Buffer.alloc(16, 7), identity: 'router' }
  const only = { ciphers: 'PSK', maxVersion: 'TLSv1.2' } as const
  const server = createTlsServer({ ...only, pskCallback: () => shared.psk }, various)
  const { resets, url, connectionCount } = await listen(server, 'secureConnection')
  const trust = { pskCallback: () => shared, checkServerIdentity: () => undefined }
  const connect = buildConnector({ ...only, ...trust })
  const client = createResettingConnection(new URL(url), { connect })
  onTestFinished(() => client.destroy())
  const controller = new AbortController()
  const { signal } = controller
  const { body } = await client.request({ method: 'POST', path: '/half', body: '{}', signal })
  body.on('error', () => {})
  controller.abort()
  await eventually(() => resets.size === 1)
  const next = await client.request({ method: 'POST', path: '/whole', body: '{}' })
  expect([next.statusCode, await next.body.text(), connectionCount()]).toEqual([200, '{}', 2])
})

it('what no client waits for has connections of its own, a few: a client’s call waits behind none of it', async () => {
  const { asked, client, connectionCount } = await serve((request, response) => {
    if (request.url === '/whole') response.end('{}')
  })
  const controller = new AbortController()
  const { signal } = controller
  setMaxListeners(0, signal)
  const shared = { method: 'POST', body: '{}', signal } as const
  const { connectionsPerEngineMax, releaseConnectionsPerEngineMax: asideMax } = routerLimits
  const asides = Array.from({ length: 2 * connectionsPerEngineMax }, () =>
    client.sendAside({ ...shared, path: '/silent' }),
  )
  const ends = Promise.allSettled(asides)
  await eventually(() => asked.length === asideMax)
  expect(await client.send({ ...shared, path: '/whole' })).toMatchObject({ statusCode: 200 })
  expect([asked.length, connectionCount()]).toEqual([asideMax + 1, asideMax + 1])
  controller.abort()
  await ends
})
