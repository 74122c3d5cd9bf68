/** Who can work with whom, when the router says it is ready, and how it notices engines that change. */
import { describe, expect, it } from 'vitest'
import { findMismatch } from '../src/engine-match.ts'
import { declaredPeer, parseEnginePeer } from '../src/engine-peer.ts'
import { nextPollMs } from '../src/engine-poller.ts'
import { defaultPollIntervals } from '../src/limits.ts'
import { decodeAnswer, peerOf, prefillAnswer, startFakeEngine } from './support/fake-engine.ts'
import { engine, errorOf, eventually, get, post, prompt, setup } from './support/router-fixture.ts'

const fast = { poll: { upMs: 10, downMs: 5, downMaxMs: 20 } }

async function ready(url: string): Promise<{ status: number; ready: boolean; problems: string[] }> {
  const { status, text } = await get(`${url}/ready`)
  return { status, ...(JSON.parse(text) as { ready: boolean; problems: string[] }) }
}

describe('readiness', () => {
  it.each([
    ['connector', 'pull', 'other'],
    ['transferMode', 'pull', 'ticket'],
    ['dispatch', 'sequential', 'concurrent'],
    ['wireVersion', 1, 2],
    ['model', 'tiny', 'large'],
    ['blockTokens', 16, 32],
    ['tpSize', 1, 2],
  ])('refuses a pair with different %s and names both values', async (field, left, right) => {
    const prefills = [await engine('producer', prefillAnswer, { [field]: left })]
    const decodes = [await engine('consumer', decodeAnswer, { [field]: right })]
    const { router } = await setup({ prefills, decodes })
    const answer = await ready(router.url)
    expect(answer.status).toBe(503)
    expect(answer.ready).toBe(false)
    expect(answer.problems).toHaveLength(1)
    expect(answer.problems[0]).toContain(field)
    expect(answer.problems[0]).toContain(`"${left}"`)
    expect(answer.problems[0]).toContain(`"${right}"`)
    const refused = await post(router.url, prompt)
    expect(refused.status).toBe(503)
    expect(errorOf(refused).message).toContain(field)
    expect(prefills[0]!.received).toEqual([])
  })

  it('accepts different block sizes where both connectors can map them', async () => {
    const can = { supportsDifferentBlockSizes: true }
    const prefills = [await engine('producer', prefillAnswer, { blockTokens: 16, ...can })]
    const decodes = [await engine('consumer', decodeAnswer, { blockTokens: 32, ...can })]
    const { router } = await setup({ prefills, decodes })
    expect((await ready(router.url)).status).toBe(200)
  })

  it('refuses engines in each other’s place, and those that it has no dispatch for', async () => {
    const wrong = [await engine('consumer', decodeAnswer)]
    const swapped = await setup({
      prefills: wrong,
      decodes: [await engine('consumer', decodeAnswer)],
    })
    expect((await ready(swapped.router.url)).problems.join()).toContain('role')
    const other = { connector: 'other', transferMode: 'teleport' }
    const prefills = [await engine('producer', prefillAnswer, other)]
    const decodes = [await engine('consumer', decodeAnswer, other)]
    const unknown = await setup({ prefills, decodes })
    expect((await ready(unknown.router.url)).problems.join()).toContain('"teleport"')
    const odd = { dispatch: 'by-post' }
    const posted = await setup({
      prefills: [await engine('producer', prefillAnswer, odd)],
      decodes: [await engine('consumer', decodeAnswer, odd)],
    })
    expect((await ready(posted.router.url)).problems.join()).toContain('no dispatch "by-post"')
    const none = { connector: null, transferMode: null }
    const alone = await setup({
      prefills: [await engine('producer', prefillAnswer, none)],
      decodes: [await engine('consumer', decodeAnswer, none)],
    })
    expect(await ready(alone.router.url)).toMatchObject({ status: 503, ready: false })
    expect((await ready(alone.router.url)).problems.join()).toContain('without a connector')
  })

  it('serves the pair that matches and names the one that does not', async () => {
    const decodes = [
      await engine('consumer', decodeAnswer, { model: 'other', engineId: 'd1' }),
      await engine('consumer', decodeAnswer),
    ]
    const { router } = await setup({ decodes })
    const answer = await ready(router.url)
    expect(answer.status).toBe(200)
    expect(answer.problems.join()).toContain('"other"')
    for (let i = 0; i < 3; i++) expect((await post(router.url, prompt)).status).toBe(200)
    expect(decodes[0]!.received).toEqual([])
  })

  it('starts without engines, and is ready once they are there', async () => {
    const dead = await startFakeEngine(peerOf('producer'), prefillAnswer)
    await dead.kill()
    const { router } = await setup({ config: { prefill: [dead.url], ...fast } })
    expect((await ready(router.url)).status).toBe(503)
    expect((await post(router.url, prompt)).status).toBe(503)
    const revived = await startFakeEngine(peerOf('producer'), prefillAnswer, dead.port)
    try {
      await eventually(async () => (await ready(router.url)).status === 200)
      expect((await post(router.url, prompt)).status).toBe(200)
    } finally {
      await revived.kill()
    }
  })

  it('serves again after an engine came back as a new incarnation, with what it is now', async () => {
    const { router, p, d, log } = await setup({ config: fast })
    expect((await post(router.url, prompt)).status).toBe(200)
    await p.kill()
    expect((await post(router.url, prompt)).status).toBe(503)
    const changed = peerOf('producer', { incarnation: 'second', blockTokens: 32 })
    const revived = await startFakeEngine(changed, prefillAnswer, p.port)
    try {
      await eventually(() => log.some(({ incarnation }) => incarnation === 'second'))
      expect((await ready(router.url)).problems.join()).toContain('blockTokens')
      d.peer = peerOf('consumer', { blockTokens: 32 })
      await eventually(async () => (await ready(router.url)).status === 200)
      expect((await post(router.url, prompt)).status).toBe(200)
      expect(revived.received).toHaveLength(1)
    } finally {
      await revived.kill()
    }
  })

  it('takes an engine that stops answering out of service within the poll deadline', async () => {
    const { router, d } = await setup({ config: { ...fast, deadlines: { pollMs: 30 } } })
    expect((await ready(router.url)).status).toBe(200)
    await d.kill()
    await eventually(async () => (await ready(router.url)).status === 503)
  })

  const silent = async () => ({
    prefills: [await engine('producer', prefillAnswer, null)],
    decodes: [await engine('consumer', decodeAnswer, null)],
  })

  it('needs a word from the operator for engines that cannot describe themselves', async () => {
    const { router } = await setup(await silent())
    expect((await ready(router.url)).problems.join()).toContain('--connector')
  })

  it.each(['pull', 'xavier'] as const)('serves engines that are declared as %s', async (name) => {
    const engines = await silent()
    const declared = {
      url: engines.prefills[0]!.url,
      engineId: 'p0',
      sideChannel: '10.1.2.3:5601',
      tp: 2,
    }
    const config = { connector: name, prefill: [declared] }
    const { router } = await setup({ ...engines, config })
    expect((await ready(router.url)).status).toBe(200)
    expect((await post(router.url, prompt)).status).toBe(200)
    expect(engines.decodes[0]!.received[0]!.body['kv_transfer_params']).toMatchObject({
      remote_engine_id: 'p0',
      remote_host: '10.1.2.3',
      remote_port: 5601,
      tp_size: 1,
    })
  })

  it('asks a declared engine once what it is, and again after it was gone', async () => {
    const prefills = [await engine('producer', prefillAnswer, null)]
    const decodes = [await engine('consumer', decodeAnswer, null)]
    const { router, p } = await setup({ prefills, decodes, config: { ...fast, connector: 'pull' } })
    const asked = (looks: string[]) => looks.filter((path) => path === '/kvferry/v1/peer').length
    await eventually(() => p.looks.filter((path) => path === '/health').length > 5)
    expect(asked(p.looks)).toBe(1)
    await p.kill()
    await eventually(async () => (await ready(router.url)).status === 503)
    const revived = await startFakeEngine(peerOf('producer'), prefillAnswer, p.port)
    try {
      await eventually(async () => (await ready(router.url)).status === 200)
      expect(asked(revived.looks)).toBeGreaterThan(0)
    } finally {
      await revived.kill()
    }
  })

  it('refuses a declared engine that calls itself something else', async () => {
    const prefills = [await engine('producer', prefillAnswer)]
    const config = { prefill: [{ url: prefills[0]!.url, engineId: 'elsewhere' }] }
    const { router, d } = await setup({ prefills, config })
    const answer = await post(router.url, prompt)
    expect(errorOf(answer)).toMatchObject({ code: 'ERR_KV_HANDOFF_INVALID' })
    expect(d.received).toEqual([])
  })
})

describe('descriptions', () => {
  it.each([
    ['nothing', {}],
    ['a field missing', { ...peerOf('producer'), model: undefined }],
    ['a wrong type', { ...peerOf('producer'), blockTokens: '16' }],
    ['an unknown role', { ...peerOf('producer'), role: 'chef' }],
  ])('refuses %s', (_name, input) => expect(parseEnginePeer(input)).toBeNull())

  const peer = (role: 'producer' | 'consumer', overrides: Record<string, unknown>) =>
    parseEnginePeer(peerOf(role, overrides))!

  it.each([
    ['blockTokens', { supportsDifferentBlockSizes: true }, 16, 48, true],
    ['blockTokens', { supportsDifferentBlockSizes: true }, 32, 48, false],
    ['blockTokens', { supportsDifferentBlockSizes: false }, 16, 32, false],
    ['tpSize', { tensorParallel: 'mapped' }, 4, 2, true],
    ['tpSize', { tensorParallel: 'mapped' }, 2, 3, false],
    ['tpSize', { tensorParallel: 'equal' }, 4, 2, false],
    ['tpSize', { tensorParallel: 'single' }, 1, 1, true],
    ['tpSize', {}, 1, 2, false],
  ])('maps %s with %j: %i and %i: %s', (field, can, left, right, isMapped) => {
    const prefill = peer('producer', { ...can, [field]: left })
    const decode = peer('consumer', { ...can, [field]: right })
    expect(findMismatch(prefill, decode)?.field ?? null).toBe(isMapped ? null : field)
    // It takes both to map.
    const plain = peer('consumer', { [field]: right })
    expect(findMismatch(prefill, plain) === null).toBe(left === right)
  })

  it.each([
    ['push', undefined, 'concurrent'],
    ['pull', undefined, 'sequential'],
    ['ticket', undefined, 'sequential'],
    ['teleport', undefined, null],
    ['teleport', 'concurrent', 'concurrent'],
    ['push', 'sequential', 'sequential'],
    [null, undefined, null],
  ])('transferMode %s with dispatch %s is asked %s', (transferMode, dispatch, expected) => {
    expect(peer('producer', { transferMode, dispatch }).dispatch).toBe(expected)
  })

  it('knows how declared engines are asked', () => {
    const dispatchOf = (name: 'pull' | 'push' | 'xavier') =>
      declaredPeer(name, 'producer', {}).dispatch
    expect([dispatchOf('pull'), dispatchOf('push'), dispatchOf('xavier')]).toEqual([
      'sequential',
      'concurrent',
      'sequential',
    ])
  })

  it('compares only what is known', () => {
    const prefill = declaredPeer('pull', 'producer', {})
    const decode = parseEnginePeer(peerOf('consumer'))!
    expect(findMismatch(prefill, decode)).toBeNull()
    expect(findMismatch(declaredPeer('xavier', 'producer', {}), decode)?.field).toBe('connector')
  })

  it('backs off, bounded, and starts anew', () => {
    const waits = [0, 1, 2, 3, 6, 100].map((n) => nextPollMs(defaultPollIntervals, n))
    expect(waits).toEqual([2_000, 100, 200, 400, 2_000, 2_000])
  })
})
