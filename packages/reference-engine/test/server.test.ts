/** The engine as a server: disconnects, overload, state routes, its end. */
import { request as httpRequest } from 'node:http'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startEngine, type RunningEngine } from '../src/index.ts'
import { errorOf, inlineOptions, post, statsOf } from './support/pair.ts'
import { createFabric } from './support/test-core.ts'

let engine: RunningEngine
beforeAll(async () => {
  engine = await startEngine({
    ...inlineOptions(createFabric()),
    engineId: 'e0',
    maxModelLen: 512,
    maxOpenRequests: 3,
  })
})
afterAll(() => engine.close())

const get = (path: string) => fetch(`${engine.url}${path}`)
const runningCount = async (of: RunningEngine) => (await statsOf(of)).requests.running

describe('a caller that disconnects', () => {
  /** Starts a long completion and hangs up once the engine runs it. */
  async function hangUp(target: RunningEngine, isStream: boolean): Promise<void> {
    const { hostname, port } = new URL(target.url)
    const call = httpRequest({
      host: hostname,
      port,
      path: '/v1/completions',
      method: 'POST',
      headers: { 'content-type': 'application/json' },
    })
    call.on('error', () => {})
    call.end(JSON.stringify({ prompt: 'endless', max_tokens: 400, stream: isStream }))
    await expect.poll(() => runningCount(target)).toBe(1)
    call.destroy()
    await expect.poll(() => runningCount(target)).toBe(0)
  }

  it('aborts its request, streaming or not, and frees its blocks', async () => {
    // At modelled speed the request would go on for seconds.
    const slow = await startEngine({ ...inlineOptions(createFabric()), timeScale: 1 })
    try {
      await hangUp(slow, true)
      await hangUp(slow, false)
      expect((await statsOf(slow)).blocks).toMatchObject({ owned: 0 })
    } finally {
      await slow.close()
    }
  })
})

describe('too many requests', () => {
  it('get 429 with Retry-After, and those accepted are answered', async () => {
    const body = { prompt: 'x'.repeat(100), max_tokens: 60 }
    const responses = await Promise.all(Array.from({ length: 12 }, () => post(engine, body)))
    const refused = responses.filter(({ status }) => status === 429)
    expect(refused.length).toBeGreaterThan(0)
    expect(responses.filter(({ status }) => status === 200).length).toBeGreaterThanOrEqual(3)
    expect(refused[0]?.headers.get('retry-after')).toBe('1')
    expect(await errorOf(refused[0] as Response)).toMatchObject({
      code: 'ERR_KV_LIMIT',
      type: 'rate_limit_error',
    })
    await expect.poll(() => runningCount(engine)).toBe(0)
    expect((await post(engine, { prompt: 'a' })).status).toBe(200)
  })
})

describe('other routes', () => {
  it('say what is served', async () => {
    expect(await (await get('/v1/models')).json()).toMatchObject({
      object: 'list',
      data: [{ id: 'tiny', object: 'model', max_model_len: 512 }],
    })
    expect(await (await get('/kvferry/v1/peer')).json()).toMatchObject({
      engineId: 'e0',
      connector: null,
      dispatch: null,
      role: 'both',
      tpSize: 1,
      ppSize: 1,
      sideChannel: null,
    })
  })

  it('say that all is well', async () => {
    expect((await get('/health')).status).toBe(200)
    expect((await get('/ready')).status).toBe(200)
  })

  it('give metrics in the Prometheus form', async () => {
    const response = await get('/metrics')
    expect(response.headers.get('content-type')).toContain('text/plain')
    const text = await response.text()
    expect(text).toContain('# TYPE kv_transfer_bytes_total counter')
    expect(text).toMatch(/^kvferry_engine_blocks\{state="owned"\} 0$/m)
    expect(text).toMatch(/^kvferry_engine_steps_total [1-9]/m)
  })

  it('answer 404 in the same shape', async () => {
    expect(await errorOf(await get('/nowhere'))).toMatchObject({ status: 404, code: 'not_found' })
  })

  it('show memory only with debug endpoints', async () => {
    expect(await (await get('/kvferry/v1/debug')).json()).toMatchObject({ pid: process.pid })
    const closed = await startEngine({ ...inlineOptions(createFabric()), debugEndpoints: false })
    try {
      expect((await fetch(`${closed.url}/kvferry/v1/debug`)).status).toBe(404)
    } finally {
      await closed.close()
    }
  })
})

describe('the end of an engine', () => {
  it('lets open requests end, refuses new ones, and listens no more', async () => {
    const ending = await startEngine({ ...inlineOptions(createFabric()), timeScale: 1 })
    const open = post(ending, { prompt: 'a', max_tokens: 120 })
    await expect.poll(() => runningCount(ending)).toBe(1)
    const closed = ending.close()
    expect((await fetch(`${ending.url}/ready`)).status).toBe(503)
    expect(await errorOf(await post(ending, { prompt: 'b' }))).toMatchObject({
      status: 503,
      code: 'ERR_KV_CLOSED',
    })
    expect((await open).status).toBe(200)
    await closed
    await expect(fetch(`${ending.url}/health`)).rejects.toThrow()
  })

  it('aborts what is open at the deadline', async () => {
    const ending = await startEngine({ ...inlineOptions(createFabric()), timeScale: 20 })
    const open = post(ending, { prompt: 'a', max_tokens: 100 })
    await expect.poll(() => runningCount(ending)).toBe(1)
    await ending.close({ deadlineMs: 0 })
    expect(await errorOf(await open)).toMatchObject({ status: 503, code: 'ERR_KV_CLOSED' })
  })
})
