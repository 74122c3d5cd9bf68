/** `policy: least-load` in a router: who is busy gets nothing more, and whatever ends is counted off. */
import { describe, expect, it } from 'vitest'
import { decodeTokens, prefillTokens } from '../src/token-estimate.ts'
import { parseCompletionRequest } from '../src/completion-request.ts'
import {
  decodeAnswer,
  prefillAnswer,
  sendJson,
  type Behaviour,
  type FakeEngine,
} from './support/fake-engine.ts'
import {
  consumer,
  decodedAnswer,
  held,
  openStream,
  producer,
  pushedAnswer,
  setupPush,
} from './support/push-pair.ts'
import { engine, eventually, open, post, prompt, setup } from './support/router-fixture.ts'

const twoDecodes = async (first: Behaviour) => [
  await engine('consumer', first),
  await engine('consumer', decodeAnswer, { engineId: 'd1' }),
]
/** Requests, without what is given back for those that failed. */
const countsOf = (engines: readonly FakeEngine[]) =>
  engines.map(({ received }) => received.filter(({ path }) => path === '/v1/completions').length)
/** Were it counted for ever, no other request would go to its engine. */
const large = { ...prompt, max_tokens: 1_000 }
const config = { policy: 'least-load', poll: { upMs: 60_000 } } as const

describe('least load', () => {
  it('leaves a busy D alone, and a busy P', async () => {
    const [busyP, busyD] = [held(), held()]
    const prefills = [
      await engine('producer', prefillAnswer),
      await engine('producer', prefillAnswer, { engineId: 'p1' }),
    ]
    const decodes = await twoDecodes(busyD.behaviour)
    const { router } = await setup({ prefills, decodes, config })
    open(router.url, prompt)
    await eventually(() => busyD.open.length === 1)
    for (let count = 0; count < 4; count++) await post(router.url, prompt)
    expect(decodes.map(({ received }) => received.length)).toEqual([1, 4])
    const before = prefills.map(({ received }) => received.length)
    prefills[0]!.behaviour = busyP.behaviour
    prefills[1]!.behaviour = busyP.behaviour
    open(router.url, prompt)
    await eventually(() => busyP.open.length === 1)
    const busyIndex = prefills.findIndex(({ received }, i) => received.length > before[i]!)
    prefills[1 - busyIndex]!.behaviour = prefillAnswer
    for (let count = 0; count < 3; count++) await post(router.url, prompt)
    expect(prefills[busyIndex]!.received.length).toBe(before[busyIndex]! + 1)
  })

  it('leaves both busy engines alone that were asked at once, and counts both off', async () => {
    const [busyP, busyD] = [held(), held()]
    const prefills = [await producer(busyP.behaviour), await producer(pushedAnswer, 'p1')]
    const decodes = [await consumer(busyD.behaviour), await consumer(decodedAnswer, 'd1')]
    const { router } = await setupPush({ prefills, decodes, config })
    const first = open(router.url, large).read()
    await eventually(() => busyP.open.length === 1 && busyD.open.length === 1)
    for (let count = 0; count < 3; count++) await post(router.url, prompt)
    expect([countsOf(prefills), countsOf(decodes)]).toEqual([
      [1, 3],
      [1, 3],
    ])
    prefills[0]!.behaviour = pushedAnswer
    decodes[0]!.behaviour = decodedAnswer
    await pushedAnswer(busyP.open[0]!.request, busyP.open[0]!.response)
    await decodedAnswer(busyD.open[0]!.request, busyD.open[0]!.response)
    expect((await first).status).toBe(200)
    // Nobody is busy: they take turns.
    for (let count = 0; count < 4; count++) await post(router.url, prompt)
    expect([countsOf(prefills), countsOf(decodes)]).toEqual([
      [3, 5],
      [3, 5],
    ])
  })

  it.each<[string, Behaviour]>([
    ['well', decodeAnswer],
    ['with an error', (_request, response) => sendJson(response, 500, {})],
    ['with a refusal', (_request, response) => sendJson(response, 400, {})],
    ['with "not now"', (_request, response) => sendJson(response, 429, {})],
    ['by a break', (_request, response) => void response.destroy()],
    [
      'by a break in mid-stream',
      (_request, response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' })
        response.write('data: 1\n\n', () => response.destroy())
      },
    ],
  ])('counts off what ends %s', async (_, behaviour) => {
    const decodes = await twoDecodes(behaviour)
    const { router } = await setup({ decodes, config })
    await post(router.url, large)
    expect(countsOf(decodes)[0]).toBe(1)
    decodes[0]!.behaviour = decodeAnswer
    const before = countsOf(decodes)
    await post(router.url, prompt)
    await post(router.url, prompt)
    const after = countsOf(decodes).map((count, i) => count - before[i]!)
    expect(after).toEqual([1, 1])
  })

  it.each([true, false])('counts off what a client left (stream begun: %s)', async (hasBegun) => {
    const decode = held()
    const decodes = await twoDecodes(decode.behaviour)
    const { router } = await setup({ decodes, config })
    const request = open(router.url, { ...large, stream: true })
    await eventually(() => decode.open.length === 1)
    if (hasBegun) {
      openStream(decode.open[0]!.response)
      ;(await request.head).on('error', () => {})
    }
    request.hangUp()
    await decodes[0]!.received[0]!.aborted
    decodes[0]!.behaviour = decodeAnswer
    for (let count = 0; count < 2; count++) await post(router.url, prompt)
    expect(decodes.map(({ received }) => received.length)).toEqual([2, 1])
  })
})

describe('estimated tokens', () => {
  const completion = (fields: object) =>
    parseCompletionRequest('/v1/completions', { model: 'm', prompt: 'x'.repeat(41), ...fields })
  const chat = (content: unknown, fields: object = {}) =>
    parseCompletionRequest('/v1/chat/completions', {
      model: 'm',
      messages: [{ role: 'user', content }, null, 'odd'],
      ...fields,
    })

  it.each([
    [completion({ max_tokens: 100 }), 12, 111],
    [completion({}), 12, 27],
    [completion({ prompt: [5, 6, 7] }), 4, 19],
    [chat('x'.repeat(8), { max_completion_tokens: 10, max_tokens: 99 }), 3, 12],
    [chat([{ type: 'text', text: 'x'.repeat(8) }, { type: 'image_url' }]), 3, 258],
    [chat(null), 1, 256],
  ])('%#', (request, prefill, decode) => {
    expect(prefillTokens(request)).toBe(prefill)
    expect(decodeTokens(request)).toBe(decode)
  })
})
