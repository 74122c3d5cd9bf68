/** Answers that reach nobody: what the connection says of them, and what becomes of the handoffs in them. */
import { createServer, type Server } from 'node:http'
import { connect, type AddressInfo, type Socket } from 'node:net'
import { afterEach, describe, expect, it, onTestFinished } from 'vitest'
import type { CoreClient, CoreEvent, CoreListener, CoreSubmit } from '../src/core/core-messages.ts'
import { endWatch, watchDelivery } from '../src/http/delivery.ts'
import { OpenRequests } from '../src/http/open-requests.ts'
import type { RunningEngine } from '../src/index.ts'
import { startPair, statsOf, type Pair } from './support/pair.ts'

/** A caller that sees its connection, and reads only when it is told to. */
function callOn(url: string): { socket: Socket; send(body: string): void; received(): string } {
  const { hostname, port } = new URL(url)
  const socket = connect({ host: hostname, port: Number(port) })
  socket.on('error', () => {})
  socket.pause()
  onTestFinished(() => void socket.destroy())
  let text = ''
  socket.on('data', (chunk) => (text += String(chunk)))
  socket.pause()
  return {
    socket,
    send(body) {
      const head = [
        'POST /v1/completions HTTP/1.1',
        'host: engine',
        'content-type: application/json',
      ]
      const length = `content-length: ${Buffer.byteLength(body)}`
      socket.write([...head, length, '', body].join('\r\n'))
    },
    received: () => text,
  }
}

describe('an answer', () => {
  /** Counts what was lost; answers with so many bytes once it is told to. */
  async function serve(sizeBytes: number) {
    const lost: number[] = []
    const answers: (() => void)[] = []
    let count = 0
    const server: Server = createServer((request, response) => {
      endWatch(request.socket)
      const number = count++
      watchDelivery(response, () => lost.push(number))
      request.resume()
      answers.push(() => response.end('x'.repeat(sizeBytes)))
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => void server.close())
    onTestFinished(() => server.closeAllConnections())
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    return { lost, answers, url }
  }
  const asked = (answers: readonly unknown[], count: number) =>
    expect.poll(() => answers.length).toBe(count)

  it('whose caller left before it is lost', async () => {
    const { lost, answers, url } = await serve(10)
    const caller = callOn(url)
    caller.send('{}')
    await asked(answers, 1)
    caller.socket.destroy()
    await expect.poll(() => lost).toEqual([0])
    answers[0]!()
    expect(lost).toEqual([0])
  })

  it('whose caller left before it was all written is lost, once', async () => {
    const { lost, answers, url } = await serve(32 * 1_048_576)
    const caller = callOn(url)
    caller.send('{}')
    await asked(answers, 1)
    answers[0]!()
    caller.socket.destroy()
    await expect.poll(() => lost).toEqual([0])
  })

  it('that lay unread when its caller left is lost', async () => {
    const { lost, answers, url } = await serve(10)
    const caller = callOn(url)
    caller.send('{}')
    await asked(answers, 1)
    answers[0]!()
    // Written, and on the other side of the connection.
    await new Promise((resolve) => setTimeout(resolve, 50))
    expect(lost).toEqual([])
    caller.socket.destroy()
    await expect.poll(() => lost).toEqual([0])
  })

  it('that was read is not lost, however its caller leaves after the next one', async () => {
    const { lost, answers, url } = await serve(10)
    const caller = callOn(url)
    caller.socket.resume()
    caller.send('{}')
    await asked(answers, 1)
    answers[0]!()
    await expect.poll(() => caller.received()).toMatch(/x{10}$/)
    caller.send('{}')
    await asked(answers, 2)
    caller.socket.resetAndDestroy()
    await expect.poll(() => lost).toEqual([1])
  })

  it('that was read is not lost, although the next call is given up as soon as it is written', async () => {
    const { lost, answers, url } = await serve(10)
    const caller = callOn(url)
    caller.socket.resume()
    caller.send('{}')
    await asked(answers, 1)
    answers[0]!()
    await expect.poll(() => caller.received()).toMatch(/x{10}$/)
    caller.send('{}')
    caller.socket.resetAndDestroy()
    await expect.poll(() => lost).toEqual([1])
    expect(answers).toHaveLength(2)
  })

  it('that was read is not lost when its caller closes', async () => {
    const { lost, answers, url } = await serve(10)
    const [caller, control] = [callOn(url), callOn(url)]
    caller.socket.resume()
    caller.send('{}')
    await asked(answers, 1)
    answers[0]!()
    await expect.poll(() => caller.received()).toMatch(/x{10}$/)
    caller.socket.destroy()
    // What comes later is seen: so would this one be.
    control.send('{}')
    await asked(answers, 2)
    control.socket.destroy()
    await expect.poll(() => lost).toEqual([1])
  })
})

it('a caller that leaves while its end comes from the core: the core is told all the same', () => {
  const aborted: string[] = []
  const listeners: CoreListener[] = []
  const core = {
    ...{ setListener: (next: CoreListener) => listeners.push(next), submit() {} },
    abort: (requestId: string) => aborted.push(requestId),
  } as unknown as CoreClient
  const requests = new OpenRequests(core, { max: 1, onFatal() {} })
  const ends: string[] = []
  requests.open({ requestId: 'r' } as CoreSubmit, {
    ...{ onToken() {}, onFailure() {} },
    onEnd: ({ finishReason }) => ends.push(finishReason),
  })
  const end = { kind: 'end', requestId: 'r', finishReason: 'length' } as CoreEvent
  listeners[0]!.onEvents([end])
  requests.abandon('r')
  expect([ends, aborted]).toEqual([['length'], ['r']])
})

describe.each([
  ['pull', {}],
  ['push', { transfer_id: 'x-1' }],
  ['xavier', {}],
] as const)('a prefill engine with %s', (connector, params) => {
  let pair: Pair | null = null
  afterEach(async () => {
    await pair?.close()
    pair = null
  })
  const leased = async (of: RunningEngine) => (await statsOf(of)).blocks.leased
  const body = (prompt: string): string =>
    JSON.stringify({
      ...{ prompt, max_tokens: 1 },
      kv_transfer_params: { do_remote_decode: true, do_remote_prefill: false, ...params },
    })

  it('gives up at once what it keeps for a caller that left without reading its answer', async () => {
    pair = await startPair({ connector })
    const { prefill } = pair
    const caller = callOn(prefill.url)
    caller.send(body('x'.repeat(100)))
    await expect.poll(() => leased(prefill)).toBe(7)
    caller.socket.destroy()
    await expect.poll(() => leased(prefill)).toBe(0)
    expect((await statsOf(prefill)).connectorCounters).toMatchObject({ handoffsUndelivered: 1 })
  })

  it('keeps it for one that has read it, and closes', async () => {
    pair = await startPair({ connector })
    const { prefill } = pair
    const caller = callOn(prefill.url)
    caller.socket.resume()
    caller.send(body('x'.repeat(100)))
    await expect.poll(() => caller.received()).toContain('kv_transfer_params')
    caller.socket.destroy()
    // A later one that is given up shows that the first would have been by now.
    const second = callOn(prefill.url)
    second.send(body('y'.repeat(100)).replace('x-1', 'x-2'))
    await expect.poll(() => leased(prefill)).toBe(14)
    second.socket.destroy()
    await expect.poll(() => leased(prefill)).toBe(7)
  })
})
