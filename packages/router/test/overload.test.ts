/** Engines that are busy, slow, ending, or called like another one. */
import { connect } from 'node:net'
import { describe, expect, it } from 'vitest'
import { decodeAnswer, prefillAnswer, sendJson, type Behaviour } from './support/fake-engine.ts'
import {
  engine,
  errorOf,
  eventually,
  get,
  metric,
  open,
  post,
  prompt,
  setup,
} from './support/router-fixture.ts'

const busy =
  (status: number, retryAfter?: string): Behaviour =>
  (_request, response) => {
    if (retryAfter !== undefined) response.setHeader('retry-after', retryAfter)
    sendJson(response, status, { error: { message: 'busy', type: 'x', code: 'ERR_KV_LIMIT' } })
  }

describe('a busy engine', () => {
  it.each([429, 503])('that answers %i: another one is asked, once', async (status) => {
    const decodes = [
      await engine('consumer', busy(status)),
      await engine('consumer', decodeAnswer, { engineId: 'd1' }),
    ]
    const prefills = [
      await engine('producer', busy(status)),
      await engine('producer', prefillAnswer, { engineId: 'p1' }),
    ]
    const { router } = await setup({ prefills, decodes })
    expect((await post(router.url, prompt)).status).toBe(200)
    expect(await metric(router, 'kv_router_retries_total{leg="prefill"}')).toBe(1)
    expect(await metric(router, 'kv_router_retries_total{leg="decode"}')).toBe(1)
  })

  it('that is alone: its answer is the client’s, with its own word on when to come back', async () => {
    const { router } = await setup({ decode: busy(429, '7') })
    const answer = await post(router.url, prompt)
    expect(answer.status).toBe(429)
    expect(answer.headers['retry-after']).toBe('7')
    const silent = await setup({ prefill: busy(503) })
    const refused = await post(silent.router.url, prompt)
    expect(refused.status).toBe(503)
    expect(refused.headers['retry-after']).toBe('1')
  })

  it('that is late for one look stays in service; one that stays silent does not', async () => {
    const { router, d } = await setup({
      config: { poll: { upMs: 10, downMs: 5, downMaxMs: 20 }, deadlines: { pollMs: 40 } },
    })
    const ready = async () => (await get(`${router.url}/ready`)).status
    d.stall(true)
    await eventually(() => d.lookCount >= 1)
    expect(await ready()).toBe(200)
    await eventually(async () => (await ready()) === 503)
    d.stall(false)
    await eventually(async () => (await ready()) === 200)
  })

  it('that is late for looks and writes to a stream stays in service', async () => {
    const { router, d, log } = await setup({
      decode: async (_request, response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' })
        while (!response.destroyed) {
          response.write('data: 1\n\n')
          await new Promise((resolve) => setTimeout(resolve, 5))
        }
      },
      config: { poll: { upMs: 10, downMs: 5, downMaxMs: 20 }, deadlines: { pollMs: 40 } },
    })
    const request = open(router.url, { ...prompt, stream: true })
    ;(await request.head).on('error', () => {}).resume()
    d.stall(true)
    const slow = () => log.filter(({ message }) => message === 'engine is slow to answer').length
    await eventually(() => slow() >= 5)
    expect((await get(`${router.url}/ready`)).status).toBe(200)
    request.hangUp()
  })
})

describe('an engine that ends', () => {
  it('is taken out of service by its own word', async () => {
    const { router, d } = await setup({ config: { poll: { upMs: 10, downMs: 5, downMaxMs: 20 } } })
    d.peer = { ...d.peer, state: 'ending' }
    await eventually(async () => (await get(`${router.url}/ready`)).status === 503)
    expect((await get(`${router.url}/ready`)).text).toContain('says that it is ending')
    const answer = await post(router.url, prompt)
    expect(answer.status).toBe(503)
    expect(answer.headers['retry-after']).toBe('1')
  })
})

describe('two engines of one name', () => {
  it('get no request, and both are named', async () => {
    const decodes = [await engine('consumer', decodeAnswer), await engine('consumer', decodeAnswer)]
    const { router } = await setup({ decodes })
    const answer = await get(`${router.url}/ready`)
    expect(answer.status).toBe(503)
    expect(answer.text).toContain('engine id \\"d0\\" is used by decode ')
    for (const { url } of decodes) expect(answer.text).toContain(url)
    const refused = await post(router.url, prompt)
    expect(refused.status).toBe(503)
    expect(errorOf(refused).message).toContain('is used by')
    expect(decodes.flatMap(({ received }) => received)).toEqual([])
  })

  it('do not keep a third one from serving', async () => {
    const decodes = [
      await engine('consumer', decodeAnswer),
      await engine('consumer', decodeAnswer),
      await engine('consumer', decodeAnswer, { engineId: 'd1' }),
    ]
    const { router } = await setup({ decodes })
    for (let count = 0; count < 3; count++) {
      expect((await post(router.url, prompt)).status).toBe(200)
    }
    expect(decodes.map(({ received }) => received.length)).toEqual([0, 0, 3])
  })

  it('may be a prefill and a decode engine', async () => {
    const prefills = [await engine('producer', prefillAnswer, { engineId: 'd0' })]
    const { router } = await setup({ prefills })
    expect((await get(`${router.url}/ready`)).text).toContain('is used by prefill')
    expect((await post(router.url, prompt)).status).toBe(503)
  })
})

describe('what is no request at all', () => {
  it.each([
    ['bytes that are no HTTP', 'nonsense\r\n\r\n', 400],
    [
      'a path that cannot be decoded',
      'GET /%zz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n',
      400,
    ],
  ])('%s: is answered in the usual form', async (_, text, status) => {
    const { router } = await setup()
    const { hostname, port } = new URL(router.url)
    const socket = connect({ host: hostname, port: Number(port) })
    socket.write(text)
    let answer = ''
    for await (const chunk of socket) answer += String(chunk)
    expect(answer).toMatch(new RegExp(`^HTTP/1.1 ${status} `))
    expect(JSON.parse(answer.slice(answer.indexOf('\r\n\r\n')))).toMatchObject({
      error: { type: 'invalid_request_error', code: 'ERR_KV_MESSAGE_INVALID' },
    })
  })
})
