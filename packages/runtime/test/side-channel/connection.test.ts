/** What a connection asks of the system: counted on a socket that is none. */
import { Duplex } from 'node:stream'
import type { Socket } from 'node:net'
import { expect, test } from 'vitest'
import { Connection } from '../../src/side-channel/connection.ts'
import { createSystemClock } from '../../src/system-clock.ts'

/** Each entry: the bytes that left in one call of the system. */
function createSocket(): { readonly socket: Socket; readonly calls: string[] } {
  const calls: string[] = []
  const socket = new Duplex({
    read() {},
    write(chunk: Buffer, _encoding, done) {
      calls.push(chunk.toString())
      done()
    },
    writev(chunks, done) {
      calls.push(Buffer.concat(chunks.map(({ chunk }) => chunk as Buffer)).toString())
      done()
    },
  })
  const tuned = Object.assign(socket, { setNoDelay() {}, setKeepAlive() {} })
  return { socket: tuned as unknown as Socket, calls }
}

test('what is written before the next wait leaves in one call, in order', async () => {
  const { socket, calls } = createSocket()
  const connection = new Connection(socket, createSystemClock())
  for (const text of ['a', 'b', 'c']) expect(connection.write(Buffer.from(text))).toBeNull()
  expect(calls).toEqual([])
  await Promise.resolve()
  expect(calls).toEqual(['abc'])
  connection.write(Buffer.from('d'))
  await Promise.resolve()
  expect(calls).toEqual(['abc', 'd'])
})

test('what was written before a flush leaves at once, what follows with the next wait', async () => {
  const { socket, calls } = createSocket()
  const connection = new Connection(socket, createSystemClock())
  connection.flush()
  connection.write(Buffer.from('a'))
  connection.write(Buffer.from('b'))
  connection.flush()
  expect(calls).toEqual(['ab'])
  connection.write(Buffer.from('c'))
  connection.write(Buffer.from('d'))
  expect(calls).toEqual(['ab'])
  await Promise.resolve()
  expect(calls).toEqual(['ab', 'cd'])
})

test('last words come after what was written in the same turn', async () => {
  const { socket, calls } = createSocket()
  const connection = new Connection(socket, createSystemClock())
  connection.write(Buffer.from('a'))
  connection.leave(Buffer.from('z'))
  await Promise.resolve()
  expect(calls.join('')).toBe('az')
  socket.destroy()
  await connection.gone
})
