/** Peers that this side calls, and that answer wrongly, late, or not at all. */
import { once } from 'node:events'
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { asEngineId } from '@kvferry/connector-api'
import { createSimClock, type SimClock } from '@kvferry/connector-api/testing'
import { createTestNet, utf8, type TestEngine, type TestNet } from '../support/side-channels.ts'

let clock: SimClock
let net: TestNet
let p: TestEngine
beforeEach(async () => {
  clock = createSimClock()
  net = createTestNet({ clock })
  p = await net.engine('p0')
})
afterEach(() => net.close())

describe('a called peer', () => {
  const servers: Server[] = []
  const sockets = new Set<Socket>()
  afterEach(() => {
    for (const socket of sockets) socket.destroy()
    for (const server of servers.splice(0)) server.close()
  })

  async function listener(onSocket: (socket: Socket) => void) {
    const server = createServer((socket) => {
      sockets.add(socket)
      socket.on('error', () => {})
      onSocket(socket)
    })
    servers.push(server)
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    return { host: '127.0.0.1', port, engineId: asEngineId('raw') }
  }

  it('that doesn’t speak the protocol is incompatible', async () => {
    const address = await listener((socket) => socket.write('SSH-2.0-OpenSSH_9.2\r\n'))
    await expect(p.channel.connect(address)).rejects.toMatchObject({
      code: 'ERR_KV_PEER_INCOMPATIBLE',
      details: { field: 'protocol' },
    })
  })

  it('that never answers is given up at the caller’s deadline', async () => {
    let heard = (): void => {}
    const hello = new Promise<void>((resolve) => (heard = resolve))
    const address = await listener((socket) => socket.once('data', () => heard()))
    const attempt = p.channel.connect(address, { timeoutMs: 50 })
    await hello
    const failure = expect(attempt).rejects.toMatchObject({ code: 'ERR_KV_DEADLINE' })
    await clock.advance(50)
    await failure
  })

  it('that hangs up is unavailable', async () => {
    const address = await listener((socket) => socket.destroy())
    await expect(p.channel.connect(address)).rejects.toMatchObject({
      code: 'ERR_KV_PEER_UNAVAILABLE',
    })
  })

  it('that dies leaves its requests unavailable', async () => {
    const d = await net.engine('d0')
    d.channel.handle('never', () => new Promise(() => {}))
    const association = await p.channel.connect(d.addressFor())
    const end = p.nextEnd()
    const request = association.request('never', utf8(''))
    const failure = expect(request).rejects.toMatchObject({ code: 'ERR_KV_PEER_UNAVAILABLE' })
    void d.channel.close()
    await failure
    expect(await end).toBe(association)
  })
})
