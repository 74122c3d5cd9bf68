/**
 * A handoff that no decode engine took is given back through one of them; one that was taken is not, because
 * that engine ends the lease itself.
 */
import { describe, expect, it, onTestFinished } from 'vitest'
import { silentLogger } from '@kvferry/connector-api'
import { createSystemClock, createSystemRandom } from '@kvferry/runtime'
import { parseCompletionRequest } from '../src/completion-request.ts'
import { EngineClient } from '../src/engine-client.ts'
import { parseEnginePeer } from '../src/engine-peer.ts'
import { Engine } from '../src/engine.ts'
import type { Fleet } from '../src/fleet.ts'
import { defaultDeadlines, routerLimits } from '../src/limits.ts'
import { HandoffReleases } from '../src/release-handoff.ts'
import { RequestScope } from '../src/request-scope.ts'
import { clientGone, type Leg } from '../src/router-error.ts'
import type { RouterMetrics } from '../src/router-metrics.ts'
import { sequentialDispatch } from '../src/sequential-dispatch.ts'
import {
  decodeAnswer,
  handoff,
  prefillAnswer,
  sendJson,
  sse,
  type Behaviour,
  type FakeEngine,
} from './support/fake-engine.ts'
import { engine, eventually, metric, open, post, prompt, setup } from './support/router-fixture.ts'

const releasePath = '/kvferry/v1/release'
const sent = 'kv_router_releases_total{outcome="sent"}'
const failed = 'kv_router_releases_total{outcome="failed"}'

/** A decode engine that knows the endpoint; everything else is answered by `behaviour`. */
const withRelease =
  (behaviour: Behaviour): Behaviour =>
  (request, response) => {
    if (request.path === releasePath) sendJson(response, 202, { status: 'released' })
    else return behaviour(request, response)
  }
const releasesAt = ({ received }: FakeEngine) => received.filter(({ path }) => path === releasePath)

/** One request whose client leaves when P has answered and the last of these is chosen, before anything is sent to it. */
function betweenLegs(
  p: FakeEngine,
  decodes: readonly FakeEngine[],
  onReleased: (outcome: string) => void,
  leave = (abort: () => void): void => abort(),
) {
  const clock = createSystemClock()
  const scope = new RequestScope({ requestId: 'r', clock, totalMs: 10_000 })
  const up = (leg: Leg, { url, peer }: FakeEngine) => {
    const client = new EngineClient(url, { leg, clock, connectMs: 1_000 })
    onTestFinished(() => client.close())
    const made = new Engine({ leg, index: 0, client, declared: {} })
    made.setState({ kind: 'up', peer: parseEnginePeer(peer)! })
    return made
  }
  const prefill = up('prefill', p)
  const left = decodes.map((d) => up('decode', d))
  onTestFinished(() => scope.end())
  const fleet = {
    chooseDecode() {
      if (left.length === 1) leave(() => scope.abort(clientGone()))
      return left.length > 1 ? left.shift() : left[0]
    },
  } as unknown as Fleet
  const metrics = {
    ...{ addedLatency() {}, handoffEnded() {}, recomputed() {}, releaseRetried() {} },
    ...{ retry() {}, upstreamError() {}, released: onReleased },
  } as unknown as RouterMetrics
  const request = parseCompletionRequest('/v1/completions', prompt)
  const random = createSystemRandom()
  const shared = { fleet, metrics, random, deadlines: defaultDeadlines, logger: silentLogger }
  const context = { ...shared, scope, request, headers: {}, releases: new HandoffReleases() }
  return { context, prefill }
}

describe('a handoff is given back', () => {
  it('when the client left between the legs, once, and D is asked nothing (RT-05)', async () => {
    const p = await engine('producer', prefillAnswer)
    const d = await engine('consumer', withRelease(decodeAnswer))
    const outcomes: string[] = []
    const { context, prefill } = betweenLegs(p, [d], (outcome) => outcomes.push(outcome))
    await expect(sequentialDispatch.dispatch(context, prefill)).rejects.toMatchObject({
      outcome: 'client-gone',
    })
    await eventually(() => outcomes.length === 1)
    expect(outcomes).toEqual(['sent'])
    expect(d.received.map(({ path, body }) => ({ path, body }))).toEqual([
      { path: releasePath, body: { kv_transfer_params: handoff } },
    ])
  })

  it('when the client left while D’s call waited for its connection (RT-05)', async () => {
    const p = await engine('producer', prefillAnswer)
    const d = await engine('consumer', withRelease(decodeAnswer))
    const outcomes: string[] = []
    let hasLeft = false
    const leave = (abort: () => void): void => {
      if (!hasLeft) queueMicrotask(abort)
      hasLeft = true
    }
    const { context, prefill } = betweenLegs(p, [d], (outcome) => outcomes.push(outcome), leave)
    await expect(sequentialDispatch.dispatch(context, prefill)).rejects.toMatchObject({
      outcome: 'client-gone',
    })
    await eventually(() => outcomes.length === 1)
    expect(outcomes).toEqual(['sent'])
    expect(d.received.map(({ path }) => path)).toEqual([releasePath])
  })

  it.each([
    ['refuses the request', 400],
    ['is overloaded', 429],
    ['is ending', 503],
    ['fails', 500],
  ])('when the decode engine %s: once (RT-05)', async (_, status) => {
    const { router, p, d } = await setup({
      decode: withRelease((_request, response) =>
        sendJson(response, status, { error: { message: 'no', code: 'x' } }),
      ),
    })
    const answer = await post(router.url, prompt)
    expect(answer.status).toBeGreaterThanOrEqual(400)
    await eventually(async () => (await metric(router, sent)) === 1)
    expect(releasesAt(d).map(({ body }) => body)).toEqual([{ kv_transfer_params: handoff }])
    // Only the decode engine may tell the prefill engine.
    expect(p.received).toHaveLength(1)
    await router.close()
    expect(releasesAt(d)).toHaveLength(1)
  })

  it('when the first decode engine is overloaded and the client leaves before the next one is asked', async () => {
    const p = await engine('producer', prefillAnswer)
    const busy = await engine(
      'consumer',
      withRelease((_request, response) => sendJson(response, 429, {})),
    )
    const other = await engine('consumer', withRelease(decodeAnswer), { engineId: 'd1' })
    const outcomes: string[] = []
    const { context, prefill } = betweenLegs(p, [busy, other], (outcome) => outcomes.push(outcome))
    await expect(sequentialDispatch.dispatch(context, prefill)).rejects.toMatchObject({
      outcome: 'client-gone',
    })
    await eventually(() => outcomes.length === 1)
    expect([releasesAt(busy).length, other.received.map(({ path }) => path)]).toEqual([
      ...[0, [releasePath]],
    ])
  })

  it('at another decode engine, when the chosen ones cannot be reached', async () => {
    const decodes = [
      await engine('consumer', withRelease(decodeAnswer)),
      await engine('consumer', withRelease(decodeAnswer), { engineId: 'd1' }),
      await engine('consumer', withRelease(decodeAnswer), { engineId: 'd2' }),
    ]
    const { router } = await setup({ decodes, config: { poll: { upMs: 60_000 } } })
    await decodes[0]!.kill()
    await decodes[1]!.kill()
    expect((await post(router.url, prompt)).status).toBe(503)
    await eventually(() => releasesAt(decodes[2]!).length === 1)
  })

  it('before the router has closed', async () => {
    let answered = false
    const { router } = await setup({
      decode: (request, response) => {
        if (request.path !== releasePath) return sendJson(response, 400, {})
        setTimeout(() => {
          answered = true
          sendJson(response, 202, {})
        }, 50)
      },
    })
    await post(router.url, prompt)
    await router.close()
    expect(answered).toBe(true)
  })
})

describe('a handoff is left alone', () => {
  it('when as many as the limit are being given back', async () => {
    const p = await engine('producer', prefillAnswer)
    const d = await engine('consumer', () => {})
    const outcomes: string[] = []
    const { context, prefill } = betweenLegs(p, [d], (outcome) => outcomes.push(outcome))
    const releases = new HandoffReleases()
    const max = routerLimits.releasesOpenMax
    for (let count = 0; count < max; count++) releases.release(context, prefill.peer!, handoff)
    expect(outcomes).toEqual([])
    releases.release(context, prefill.peer!, handoff)
    expect(outcomes).toEqual(['dropped'])
    await d.kill()
    await releases.end()
    expect(outcomes).toHaveLength(max + 1)
    releases.release(context, prefill.peer!, handoff)
    expect(outcomes).toHaveLength(max + 1)
    await releases.end()
  })

  it('when a decode engine took it, streamed and not: no further call (RT-33)', async () => {
    const streamed = sse(['data: {"a":1}\n\n', 'data: [DONE]\n\n'])
    const answerOf: Behaviour = (request, response) =>
      (request.body['stream'] === true ? streamed : decodeAnswer)(request, response)
    const { router, p, d } = await setup({ decode: withRelease(answerOf) })
    for (const stream of [false, true]) {
      const answer = await post(router.url, { ...prompt, stream })
      expect(answer.status).toBe(200)
      expect(answer.text.endsWith('data: [DONE]\n\n')).toBe(stream)
    }
    // Closing waits for releases that are under way.
    await router.close()
    expect(releasesAt(d)).toEqual([])
    expect([p.received.length, d.received.length]).toEqual([2, 2])
  })

  it('when the client left while a decode engine had it', async () => {
    const { router, d } = await setup({ decode: withRelease(() => {}) })
    const asked = d.nextRequest()
    const request = open(router.url, prompt)
    const { aborted } = await asked
    request.hangUp()
    await aborted
    const gone = 'kv_router_requests_total{outcome="client-gone"}'
    await eventually(async () => (await metric(router, gone)) === 1)
    expect(releasesAt(d)).toEqual([])
  })

  it('where no decode engine knows how: its lease ends by itself, the client has D’s error (RT-05)', async () => {
    const refusal = { error: { message: 'too long', code: 'ERR_KV_LIMIT' } }
    const { router } = await setup({
      decode: (request, response) =>
        request.path === releasePath
          ? sendJson(response, 404, {})
          : sendJson(response, 400, refusal),
    })
    const answer = await post(router.url, prompt)
    expect([answer.status, JSON.parse(answer.text)]).toEqual([400, refusal])
    await eventually(async () => (await metric(router, failed)) === 1)
  })
})
