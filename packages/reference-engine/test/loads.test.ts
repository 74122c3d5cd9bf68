/** Loads through the whole core: what the engine does with bytes that a connector brought, or didn't. */
import { afterEach, describe, expect, it } from 'vitest'
import { ScriptedConnector } from './support/scripted-connector.ts'
import { startTestCore, type TestCore, type TestCoreOptions } from './support/test-core.ts'

const prompt = 'a prompt that another engine has computed'
const maxTokens = 6

let open: TestCore[] = []
afterEach(async () => {
  await Promise.all(open.map((core) => core.close()))
  open = []
})

async function start(connector?: ScriptedConnector, options: TestCoreOptions = {}) {
  const core = await startTestCore({
    ...(connector === undefined ? {} : { factory: connector.factory }),
    ...options,
  })
  open.push(core)
  return core
}

async function oracleText(): Promise<string> {
  return (await (await start()).run(prompt, maxTokens)).text
}

/** Loads all that is asked for, rightly. */
function loading(): ScriptedConnector {
  const connector = new ScriptedConnector()
  connector.onLoad = (load) => {
    void connector.writeBytes(load, prompt).then(() => connector.receive(load.requestId))
  }
  return connector
}

describe('a load that ends well', () => {
  it('gives the text of the oracle, all blocks verified, nothing prefilled here', async () => {
    const engine = await start(loading())
    const { text, end } = await engine.run(prompt, maxTokens)
    expect(text).toBe(await oracleText())
    expect(end.timings).toMatchObject({
      prefillEndAtMs: null,
      recomputed: false,
      load: { outcome: 'loaded', errorCode: null },
      verification: { blocksLoaded: 11, blocksVerified: 11, mismatchedBlocks: 0 },
    })
    expect(end.timings.loadReadyAtMs).toBeGreaterThan(end.timings.scheduledAtMs)
  })

  it('computes only the last token of the prompt (4)', async () => {
    const connector = loading()
    const engine = await start(connector, { maxNumBatchedTokens: 1 })
    await engine.run(prompt, 1)
    expect(connector.hooks.filter((hook) => hook === 'buildConnectorMeta 1')).toHaveLength(1)
  })

  it('of a part of the prompt is followed by a prefill of the rest', async () => {
    const connector = loading()
    connector.offer = (_count, computed) => 20 - computed
    const engine = await start(connector)
    const { text, end } = await engine.run(prompt, maxTokens)
    expect(text).toBe(await oracleText())
    expect(end.timings.verification.blocksLoaded).toBe(5)
    expect(end.timings.prefillEndAtMs).toBeGreaterThanOrEqual(end.timings.loadReadyAtMs!)
  })

  it('starts after the local prefix hit', async () => {
    const connector = new ScriptedConnector()
    connector.offer = () => 0
    const engine = await start(connector)
    const first = await engine.run(prompt.slice(0, 20), 1)
    expect(first.end.timings.load).toBeNull()
    const loads: number[] = []
    connector.offer = (count, computed) => count - computed
    connector.onLoad = (load) => {
      loads.push(load.start, load.end)
      void connector.writeBytes(load, prompt).then(() => connector.receive(load.requestId))
    }
    const { text } = await engine.run(prompt, maxTokens)
    expect(loads).toEqual([20, 41])
    expect(text).toBe(await oracleText())
  })

  it('feeds the prefix cache', async () => {
    const connector = loading()
    const engine = await start(connector)
    await engine.run(prompt, maxTokens)
    connector.offer = () => 0
    const { text, end } = await engine.run(prompt, maxTokens)
    expect(end.timings.cachedTokens).toBe(40)
    expect(text).toBe(await oracleText())
  })

  it('holds up nobody else while it is under way (5)', async () => {
    const connector = new ScriptedConnector()
    let isOver = false
    const begun = new Promise<() => Promise<void>>((resolve) => {
      connector.onLoad = (load) =>
        resolve(async () => {
          await connector.writeBytes(load, prompt)
          connector.receive(load.requestId)
        })
    })
    const engine = await start(connector)
    const waiting = engine.run(prompt, maxTokens)
    void waiting.then(() => (isOver = true))
    const finish = await begun
    connector.offer = () => 0
    for (const other of ['one', 'two']) {
      expect((await engine.run(other, maxTokens)).text).toHaveLength(maxTokens)
    }
    expect(isOver).toBe(false)
    await finish()
    expect((await waiting).text).toBe(await oracleText())
  })

  it('is asked for again and again while the answer is not known', async () => {
    const connector = loading()
    const { offer } = connector
    let askedCount = 0
    connector.offer = (...given) => (++askedCount < 4 ? null : offer(...given))
    const engine = await start(connector)
    expect((await engine.run(prompt, maxTokens)).text).toBe(await oracleText())
    expect(askedCount).toBe(4)
  })
})

describe('a load that fails', () => {
  /** Writes the first blocks rightly and reports the rest as invalid. */
  function failing(validBlockCount: number, options: { nameBlocks: boolean }): ScriptedConnector {
    const connector = new ScriptedConnector()
    connector.onLoad = (load) => {
      const valid = { ...load, end: validBlockCount * 4 }
      void connector.writeBytes(valid, prompt).then(() => {
        const invalid = [...load.blocks].slice(validBlockCount)
        connector.fail(load.requestId, options.nameBlocks ? invalid : [])
      })
    }
    return connector
  }

  it('is recomputed from the first invalid block on (31)', async () => {
    const connector = failing(3, { nameBlocks: true })
    const engine = await start(connector)
    const { text, end } = await engine.run(prompt, maxTokens)
    expect(text).toBe(await oracleText())
    expect(end.timings).toMatchObject({
      recomputed: true,
      load: { outcome: 'failed', errorCode: 'ERR_KV_TRANSFER_FAILED' },
      verification: { blocksLoaded: 3, blocksVerified: 3, mismatchedBlocks: 0 },
    })
    expect(end.timings.prefillEndAtMs).not.toBeNull()
  })

  it('without named blocks is recomputed as a whole', async () => {
    const engine = await start(failing(3, { nameBlocks: false }))
    const { text, end } = await engine.run(prompt, maxTokens)
    expect(text).toBe(await oracleText())
    expect(end.timings.verification.blocksLoaded).toBe(0)
  })

  it('leaves nothing to be found of its invalid blocks, and its valid ones as they are (32)', async () => {
    const connector = failing(3, { nameBlocks: true })
    const engine = await start(connector, { config: { loadFailurePolicy: 'fail' } })
    expect((await engine.run(prompt, maxTokens)).end.finishReason).toBe('error')
    connector.offer = () => 0
    const { text, end } = await engine.run(prompt, maxTokens)
    expect(end.timings.cachedTokens).toBeLessThanOrEqual(3 * 4)
    expect(text).toBe(await oracleText())
  })

  it('ends its request with the error when the policy says so (31)', async () => {
    const connector = failing(0, { nameBlocks: true })
    const engine = await start(connector, { config: { loadFailurePolicy: 'fail' } })
    const { text, end } = await engine.run(prompt, maxTokens)
    expect(text).toBe('')
    expect(end.finishReason).toBe('error')
    expect(end.error).toEqual({ code: 'ERR_KV_TRANSFER_FAILED', message: 'the peer died' })
    expect(connector.ended).toMatchObject([{ reason: 'failed' }])
    expect((await engine.core.stats()).blocks).toMatchObject({ free: 64, owned: 0 })
  })
})

describe('a request that was aborted in its load', () => {
  it('keeps its blocks out of service until the load has ended', async () => {
    const connector = new ScriptedConnector()
    const begun = new Promise<string>((resolve) => {
      connector.onLoad = (load) => resolve(load.requestId)
    })
    const engine = await start(connector)
    const answer = engine.run(prompt, maxTokens)
    const requestId = await begun
    engine.core.abort(requestId)
    expect((await answer).end.finishReason).toBe('abort')
    expect((await engine.core.stats()).blocks).toMatchObject({ quarantined: 11, free: 53 })
    connector.receive(requestId)
    connector.offer = () => 0
    await engine.run('another', 1)
    expect((await engine.core.stats()).blocks.quarantined).toBe(0)
    engine.core.parts.pool.checkInvariants([])
  })
})

describe('blocks of an answered request', () => {
  it('stay leased until the connector reports them sent', async () => {
    const connector = new ScriptedConnector()
    connector.offer = () => 0
    connector.delayFree = true
    const engine = await start(connector)
    const { end } = await engine.run(prompt, 1, 'p-1')
    expect(end.kvTransferParams).toEqual({ a: 1 })
    expect((await engine.core.stats()).blocks).toMatchObject({ leased: 11, owned: 0 })
    connector.delayFree = false
    connector.send('p-1')
    await engine.run('another', 1)
    const stats = await engine.core.stats()
    expect(stats.blocks.leased).toBe(0)
    expect(stats.blockSecondsHeld).toBeGreaterThan(0)
  })
})
