/** The order in which a connector's hooks are called: what every connector may rely on. */
import { afterEach, describe, expect, it } from 'vitest'
import { createSystemClock } from '@kvferry/runtime'
import { ScriptedConnector } from './support/scripted-connector.ts'
import { startTestCore, type TestCore, type TestCoreOptions } from './support/test-core.ts'

let engine: TestCore | null = null
afterEach(async () => {
  await engine?.close()
  engine = null
})

async function start(connector: ScriptedConnector, options: TestCoreOptions = {}) {
  engine = await startTestCore({ factory: connector.factory, ...options })
  return engine
}

/** A connector whose kernels log when a forward begins and ends writing. */
async function startLogged(connector: ScriptedConnector, hooks: 'additive' | 'after-launch') {
  const core = await start(connector, { hooks })
  const { kernels } = core.fabric
  const fill = kernels.fill.bind(kernels)
  kernels.fill = async (...given) => {
    connector.hooks.push('fill')
    return fill(...given)
  }
  return core
}

describe('hooks', () => {
  it('begin with registration, and the handshake metadata goes to the scheduler half', async () => {
    const connector = new ScriptedConnector()
    await start(connector)
    expect(connector.hooks.slice(0, 2)).toEqual(['registerKvCaches', 'setHandshakeMetadata'])
  })

  it('come in the order of a step, the loads of a step before its forward when additive', async () => {
    const connector = new ScriptedConnector()
    connector.offer = () => 0
    const core = await startLogged(connector, 'additive')
    await core.run('a prompt', 1)
    await core.close()
    expect(connector.hooks.slice(2)).toEqual([
      'onNewRequest',
      'getNumNewMatchedTokens',
      'updateStateAfterAlloc 0',
      'buildConnectorMeta 1',
      'handlePreemptions',
      'bindConnectorMetadata',
      'waitForSave fence',
      'fill',
      'getTransferResults 0',
      'updateConnectorOutput',
      'requestFinished',
      // The step that tells the worker half who ended, though there is nothing left to compute.
      'buildConnectorMeta 0',
      'handlePreemptions',
      'bindConnectorMetadata',
      'waitForSave null',
      'getTransferResults 1',
      'updateConnectorOutput',
      'shutdown worker',
      'shutdown scheduler',
    ])
  })

  it('name each block once, at admission or in the step that needs it, and what is computed', async () => {
    const connector = new ScriptedConnector()
    connector.offer = () => 0
    const core = await start(connector, { maxNumBatchedTokens: 32 })
    await core.run('x'.repeat(70), 20)
    const [id] = [...connector.named.keys()]
    expect(connector.named.get(id!)).toEqual(connector.finishedBlocks.get(id!))
    expect(connector.named.get(id!)).toHaveLength(Math.ceil(89 / 4))
    const steps = connector.computed.get(id!)!
    expect(steps.slice(0, 4)).toEqual([32, 64, 70, 71])
    expect(steps.at(-1)).toBe(89)
  })

  it('of a load: commit, bind in the same step, then commit again with nothing', async () => {
    const connector = new ScriptedConnector()
    connector.onLoad = (load) => {
      void connector.writeBytes(load, 'a prompt').then(() => connector.receive(load.requestId))
    }
    const core = await start(connector)
    await core.run('a prompt', 1)
    const commits = connector.hooks.filter((hook) => hook.startsWith('updateStateAfterAlloc'))
    expect(commits).toEqual(['updateStateAfterAlloc 8', 'updateStateAfterAlloc 0'])
    const commitAt = connector.hooks.indexOf('updateStateAfterAlloc 8')
    expect(connector.hooks.slice(commitAt, commitAt + 5)).toEqual([
      'updateStateAfterAlloc 8',
      'buildConnectorMeta 0',
      'handlePreemptions',
      'bindConnectorMetadata',
      'waitForSave null',
    ])
  })

  it('bind after the launch of the forward when placed there', async () => {
    for (const hooks of ['additive', 'after-launch'] as const) {
      const connector = new ScriptedConnector()
      connector.offer = () => 0
      const core = await start(connector, { hooks })
      const { forward } = core.core.parts
      const run = forward.run.bind(forward)
      forward.run = (chunks) => {
        connector.hooks.push('launch')
        return run(chunks)
      }
      await core.run('a prompt', 1)
      const order = connector.hooks.filter((hook) => /launch|bind/.test(hook)).slice(0, 2)
      const expected = ['bindConnectorMetadata', 'launch']
      expect(order).toEqual(hooks === 'additive' ? expected : expected.reverse())
      await core.close()
    }
  })

  it('are measured: a slow one shows in the statistics, and as a stall when nothing hides it', async () => {
    const connector = new ScriptedConnector()
    connector.offer = () => 0
    const clock = createSystemClock()
    const slow = connector.factory.createWorker
    const factory = {
      ...connector.factory,
      createWorker: (...given: Parameters<typeof slow>) => ({
        ...slow(...given),
        bindConnectorMetadata() {
          const endMs = clock.now() + 3
          while (clock.now() < endMs);
        },
      }),
    }
    engine = await startTestCore({ factory, hooks: 'additive' })
    await engine.run('a prompt', 4)
    const stats = await engine.core.stats()
    expect(stats.hookUsPerStep.max).toBeGreaterThan(3_000)
    expect(stats.stepStallMs).toBeGreaterThan(4 * 3)
  })
})

describe('work that takes longer than the device it stands for', () => {
  it('is counted as overrun', async () => {
    const connector = new ScriptedConnector()
    connector.offer = () => 0
    const core = await start(connector, { timeScale: 1 })
    const clock = createSystemClock()
    const { kernels } = core.fabric
    const fill = kernels.fill.bind(kernels)
    kernels.fill = async (...given) => {
      await new Promise<void>((resolve) => clock.after(40, resolve))
      return fill(...given)
    }
    await core.run('a prompt', 1)
    const { modelledMs, overrunMs, workMs } = await core.core.stats()
    expect(modelledMs).toBeCloseTo(8.05)
    expect(workMs).toBeGreaterThan(40)
    expect(overrunMs).toBeCloseTo(workMs - modelledMs)
  })
})

describe('an idle engine', () => {
  it('steps when the connector asks for it, and not otherwise', async () => {
    const connector = new ScriptedConnector()
    connector.offer = () => 0
    const core = await start(connector)
    await core.run('a prompt', 1)
    const settled = async () => (await core.core.stats()).steps
    await expect.poll(settled).toBe(2)
    const before = await settled()
    core.core.parts.engine.requestStep()
    core.core.parts.engine.requestStep()
    await expect.poll(settled).toBe(before + 1)
  })

  it('looks again by itself while something of the connector is open', async () => {
    const connector = new ScriptedConnector()
    connector.offer = () => 0
    connector.delayFree = true
    const core = await start(connector)
    await core.run('a prompt', 1)
    const before = (await core.core.stats()).steps
    await expect.poll(async () => (await core.core.stats()).steps).toBeGreaterThan(before + 2)
    connector.send('request-0')
    await expect.poll(async () => (await core.core.stats()).blocks.leased).toBe(0)
  })
})

describe('the fence of a forward', () => {
  it('is signalled when the modelled time is over, not before', async () => {
    const connector = new ScriptedConnector()
    connector.offer = () => 0
    const core = await start(connector, { timeScale: 5 })
    const clock = createSystemClock()
    const { ports } = core.core.parts
    const agent = ports.transfer?.agents[0]
    if (agent === undefined) throw new Error('no agent')
    const createFence = agent.createFence.bind(agent)
    const signalFence = agent.signalFence.bind(agent)
    const times: number[] = []
    agent.createFence = () => {
      times.push(clock.now())
      return createFence()
    }
    agent.signalFence = (fence, options) => {
      times.push(clock.now() + (options?.inMs ?? 0))
      signalFence(fence, options)
    }
    await core.run('a prompt', 1)
    const [created, signalled] = times
    // (8 + 0.05) ms for eight tokens, times 5.
    expect((signalled as number) - (created as number)).toBeGreaterThan(39)
    expect(times).toHaveLength(2)
  })
})
