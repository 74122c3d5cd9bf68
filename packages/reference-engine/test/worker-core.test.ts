/** The core on its own thread: what crosses, and every way in which the thread can end. */
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { afterEach, describe, expect, it } from 'vitest'
import { digestTokens } from '@kvferry/connector-api'
import { createSystemClock } from '@kvferry/runtime'
import type { CoreClient } from '../src/core/core-messages.ts'
import { startWorkerCore } from '../src/core/worker-core.ts'
import { resolveCoreConfig } from '../src/engine-options.ts'
import { OpenRequests, type RequestSink } from '../src/http/open-requests.ts'
import { startEngine } from '../src/index.ts'
import { complete, inlineOptions } from './support/pair.ts'
import { createFabric } from './support/test-core.ts'

const workerFile = fileURLToPath(new URL('./fixtures/core-worker-stub.mjs', import.meta.url))
const clock = createSystemClock()

let open: CoreClient[] = []
afterEach(async () => {
  await Promise.all(open.map((core) => core.close({ deadlineMs: 0 })))
  open = []
})

async function start(engineId: string): Promise<CoreClient> {
  const config = resolveCoreConfig({ engineId }, '00112233')
  const core = await startWorkerCore({ config, logLevel: 'silent', clock, workerFile })
  open.push(core)
  return core
}

function untilFatal(core: CoreClient): Promise<Error> {
  return new Promise((resolve) => core.setListener({ onEvents() {}, onFatal: resolve }))
}

describe('a core thread', () => {
  it('answers questions, each its own', async () => {
    const core = await start('e0')
    expect(core.peer.engineId).toBe('e0')
    const answers = await Promise.all([core.stats(), core.metricsText(), core.debug()])
    expect(answers).toEqual(['stats', 'metrics', 'debug'])
  })

  it('that refuses to start says why, with its code', async () => {
    await expect(start('refuses')).rejects.toMatchObject({
      code: 'ERR_NIXL_UNAVAILABLE',
      message: 'no library',
    })
  })

  it('that dies at start is an error', async () => {
    await expect(start('dies-at-start')).rejects.toThrow('died at start')
  })

  for (const [way, message] of [
    ['throw', /bug in the core/],
    ['exit', /ended with 3/],
  ] as const) {
    it(`that ends by ${way} is fatal, also for questions`, async () => {
      const core = await start('silent')
      const fatal = untilFatal(core)
      const question = expect(core.stats()).rejects.toThrow(message)
      core.abort(way)
      expect((await fatal).message).toMatch(message)
      await question
      await expect(core.stats()).rejects.toThrow(message)
    })
  }

  it('that could not be told of a request holds nothing of it', async () => {
    const core = await start('e0')
    const requests = new OpenRequests(core, { max: 1, onFatal() {} })
    const nested = JSON.parse(`${'['.repeat(100_000)}${']'.repeat(100_000)}`) as unknown
    const submit = {
      ...{ requestId: 'r', promptTokens: Uint8Array.of(1), promptDigest: null, maxTokens: 1 },
      ...{ kvTransferParams: { nested }, receivedAtMs: 0 },
    }
    const sink: RequestSink = { onToken() {}, onEnd() {}, onFailure() {} }
    const refusal = { status: 400, code: 'ERR_KV_MESSAGE_INVALID' }
    expect(() => requests.open(submit, sink)).toThrow(expect.objectContaining(refusal))
    expect(() => requests.release(submit)).toThrow(expect.objectContaining(refusal))
    // The only place is free.
    requests.open({ ...submit, kvTransferParams: null }, sink)
  })

  it('fails the requests that wait for it, and takes no more', async () => {
    const core = await start('e0')
    let fatal: Error | null = null
    const requests = new OpenRequests(core, {
      max: 2,
      onFatal: (error) => {
        fatal = error
      },
    })
    const submit = {
      requestId: 'r',
      promptTokens: Uint8Array.of(1),
      promptDigest: digestTokens([1]),
      maxTokens: 1,
      kvTransferParams: null,
      receivedAtMs: 0,
    }
    const failure = new Promise<Error>((resolve) => {
      const sink: RequestSink = { onToken() {}, onEnd() {}, onFailure: resolve }
      requests.open(submit, sink)
    })
    core.abort('throw')
    expect(await failure).toMatchObject({ status: 500, code: 'internal_error' })
    expect(requests.state).toBe('failed')
    expect(fatal).not.toBeNull()
    expect(() => requests.open(submit, { onToken() {}, onEnd() {}, onFailure() {} })).toThrow(
      /failed/,
    )
  })
})

const builtWorker = fileURLToPath(new URL('../dist/core-worker.js', import.meta.url))
const addon = new URL('../../native-nixl/build/Release/', import.meta.url)
const isBuilt = existsSync(builtWorker) && existsSync(addon)

describe('an engine on its own thread', () => {
  it.skipIf(!isBuilt)('says what an inline one says', async () => {
    const inline = await startEngine(inlineOptions(createFabric()))
    const threaded = await startEngine({ timeScale: 0, logLevel: 'silent', debugEndpoints: true })
    try {
      const body = { prompt: 'two threads, one text', max_tokens: 9 }
      const [left, right] = await Promise.all([complete(inline, body), complete(threaded, body)])
      expect(right.text).toBe(left.text)
      const debug = (await (await fetch(`${threaded.url}/kvferry/v1/debug`)).json()) as {
        regions: { address: string }[]
      }
      expect(debug.regions.map(({ address }) => address)).toHaveLength(4)
      expect(debug.regions[1]?.address).toMatch(/^0x[0-9a-f]+$/)
    } finally {
      await threaded.close()
      await inline.close()
    }
  })
})
