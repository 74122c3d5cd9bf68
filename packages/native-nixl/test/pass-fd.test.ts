/** Descriptors over a unix socket within one process: order, refusals, deadlines, nothing left open. */
import { closeSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { createServer, Socket, type Server } from 'node:net'
import { once } from 'node:events'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createHostAllocator, importHostMemory, receiveFd, sendFd } from '../src/index.ts'
import { descriptorOf } from './children.ts'

const folder = mkdtempSync(join(tmpdir(), 'kvferry-pass-'))
const memory = createHostAllocator({ shared: true }).allocate({ sizeBytes: 4_096 })
let server: Server

beforeAll(async () => {
  // Paused, so that Node doesn't read what is meant for us.
  server = createServer({ pauseOnConnect: true }).listen(join(folder, 'socket'))
  await once(server, 'listening')
})

afterAll(() => {
  server.close()
  memory.free()
  rmSync(folder, { recursive: true })
})

async function withPair(run: (near: Socket, far: Socket) => Promise<void>): Promise<void> {
  const near = new Socket()
  near.pause()
  near.connect(join(folder, 'socket'))
  const [far] = (await once(server, 'connection')) as [Socket]
  try {
    await run(near, far)
  } finally {
    near.destroy()
    far.destroy()
  }
}

const timeoutMs = 60_000
const openDescriptors = () => readdirSync('/proc/self/fd').length

describe('a descriptor', () => {
  test('arrives open, with its message, in order; the JS thread goes on meanwhile', async () => {
    await withPair(async (near, far) => {
      const first = receiveFd(descriptorOf(far), { timeoutMs })
      await new Promise((resolve) => setImmediate(resolve))
      for (const text of ['one', 'two']) {
        const message = Buffer.from(text)
        await sendFd(descriptorOf(near), memory.fd, { timeoutMs, message })
      }
      const received = [await first, await receiveFd(descriptorOf(far), { timeoutMs })]
      expect(received.map(({ message }) => Buffer.from(message).toString())).toEqual(['one', 'two'])
      for (const { fd } of received) {
        const copy = importHostMemory({ fd, sizeBytes: 4_096 })
        closeSync(fd)
        copy.bytes![7] = 77
        expect(memory.bytes![7]).toBe(77)
        copy.bytes![7] = 0
        copy.free()
      }
    })
  })

  test('that never comes is waited for up to the deadline', async () => {
    await withPair(async (_, far) => {
      const attempt = receiveFd(descriptorOf(far), { timeoutMs: 20 })
      await expect(attempt).rejects.toMatchObject({ code: 'ERR_KV_DEADLINE' })
    })
  })

  test('from an end that is gone gives ERR_KV_CLOSED, both ways', async () => {
    await withPair(async (near, far) => {
      near.destroy()
      const received = receiveFd(descriptorOf(far), { timeoutMs })
      await expect(received).rejects.toMatchObject({ code: 'ERR_KV_CLOSED' })
      const sent = sendFd(descriptorOf(far), memory.fd, { timeoutMs })
      await expect(sent).rejects.toMatchObject({ code: 'ERR_KV_CLOSED' })
    })
  })

  test('beside a reader that takes nothing is sent up to the deadline', async () => {
    await withPair(async (near) => {
      const message = new Uint8Array(256)
      const flood = async () => {
        for (;;) await sendFd(descriptorOf(near), memory.fd, { timeoutMs: 20, message })
      }
      await expect(flood()).rejects.toMatchObject({ code: 'ERR_KV_DEADLINE' })
    })
  })

  test.each<[string, Uint8Array]>([
    ['bytes without a descriptor', Buffer.from('x')],
    ['a flood of bytes', Buffer.alloc(10_000)],
  ])('%s are refused', async (_, bytes) => {
    await withPair(async (near, far) => {
      near.write(bytes)
      const received = receiveFd(descriptorOf(far), { timeoutMs })
      await expect(received).rejects.toMatchObject({ code: 'ERR_KV_MESSAGE_INVALID' })
    })
  })

  test('over what is no unix socket, or that is not open, or with a wrong message, is refused', async () => {
    await withPair(async (near) => {
      const socket = descriptorOf(near)
      const before = openDescriptors()
      const attempts = [
        () => receiveFd(memory.fd, { timeoutMs }),
        () => receiveFd(1_000_000, { timeoutMs }),
        () => receiveFd(-1, { timeoutMs }),
        () => receiveFd(socket, { timeoutMs: 0 }),
        () => sendFd(memory.fd, memory.fd, { timeoutMs }),
        () => sendFd(socket, 1_000_000, { timeoutMs }),
        () => sendFd(socket, memory.fd, { timeoutMs, message: new Uint8Array(0) }),
        () => sendFd(socket, memory.fd, { timeoutMs, message: new Uint8Array(257) }),
      ]
      for (const attempt of attempts) await expect(attempt()).rejects.toThrow(RangeError)
      const message = 'text' as unknown as Uint8Array
      await expect(sendFd(socket, memory.fd, { timeoutMs, message })).rejects.toThrow(TypeError)
      expect(openDescriptors()).toBe(before)
    })
  })
})
