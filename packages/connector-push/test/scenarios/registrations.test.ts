/**
 * What becomes of registrations on their way from D to P: repeated, sent to several ranks, held up by a
 * handshake. Each test's first line says what vLLM's push connector does.
 */
import type { SideChannel, SideChannelHandler } from '@kvferry/connector-api'
import { delegate } from '@kvferry/connector-api/conformance'
import { decodeRegistration, kindOf } from '@kvferry/connector-api/remote-writes'
import { expect, test } from 'vitest'
import {
  agentCounters,
  counter,
  open,
  serve,
  settle,
  until,
  untilServed,
  untilWriting,
} from '../fixtures/story.ts'

/** For an engine: what it does with messages of some kinds is changed. */
const answering =
  (
    kinds: readonly string[],
    change: (handler: SideChannelHandler, kind: string) => SideChannelHandler,
  ) =>
  (channel: SideChannel): SideChannel =>
    delegate(channel, {
      handle: (kind, handler) =>
        channel.handle(kind, kinds.includes(kind) ? change(handler, kind) : handler),
    })

/** What P says to a registration: taken on or refused. */
const verdictOf = ([, verdict]: Uint8Array): string => (verdict === 1 ? 'taken' : 'refused')

test('the same registration again, before, in and after its WRITE: one WRITE, one load (52)', async () => {
  // Upstream: idempotent while it waits; one that comes late is matched with nothing, for ever.
  const repeats: (() => Promise<Uint8Array>)[] = []
  const wrapSideChannel = answering([kindOf('push', 'register', 0)], (handler) => (body, from) => {
    const copy = body.slice()
    repeats.push(async () => handler(copy.slice(), from))
    return handler(body, from)
  })
  const p = { stepMs: 50, stepTokenCountMax: 16, wrapSideChannel }
  const cluster = await open({ engine: { p0: p } })
  const journey = serve(cluster)
  const verdicts: string[] = []
  const repeat = async () =>
    verdicts.push(verdictOf(await cluster.world.clock.wait(repeats[0]!(), 100)))
  await until(cluster, () => repeats.length === 1)
  await repeat()
  expect(agentCounters(cluster, 'p0').transfersOpen).toBe(0)
  await untilWriting(cluster)
  await repeat()
  await untilServed(cluster, journey)
  await settle(cluster)
  await repeat()
  expect(verdicts).toEqual(['taken', 'taken', 'refused'])
  await settle(cluster)
  expect(repeats).toHaveLength(1)
  expect(agentCounters(cluster, 'p0').transfersPosted).toBe(1)
  const received = cluster.engine('d0').host.outputs.flatMap((output) => output.received)
  expect(received).toEqual(['d0/r1'])
  expect(journey.consumer!.loadError).toBe(null)
})

test.each([
  { p: 2, d: 1, expected: ['0 to 0', '0 to 1'] },
  { p: 1, d: 2, expected: ['0 to 0', '1 to 0'] },
])(
  'P with $p ranks, D with $d: every rank that writes hears of every one that waits (47)',
  async ({ p, d, expected }) => {
    // Upstream: D tells every rank of P.
    const heard: { readonly way: string; readonly said: unknown }[] = []
    const kinds = [0, 1].map((rank) => kindOf('push', 'register', rank))
    const wrapSideChannel = answering(kinds, (handler, kind) => (body, from) => {
      const { rank, transferId, firstToken, tokenCount, blockIds } = decodeRegistration(body, 'd0')
      const said = { transferId, firstToken, tokenCount, blockCount: blockIds.length }
      heard.push({ way: `${rank} to ${kinds.indexOf(kind)}`, said })
      return handler(body, from)
    })
    const engine = { p0: { tpSize: p, wrapSideChannel }, d0: { tpSize: d } }
    const cluster = await open({ engines: { kvHeadCount: 2 }, engine })
    const journey = serve(cluster)
    await untilServed(cluster, journey)
    expect(heard.map(({ way }) => way).toSorted()).toEqual(expected)
    const said = { transferId: journey.handoff!['transfer_id'], firstToken: 0, tokenCount: 30 }
    for (const one of heard) expect(one.said).toEqual({ ...said, blockCount: 8 })
    expect(journey.consumer!.loadError).toBe(null)
    await settle(cluster)
  },
)

test('registrations from before the handshake wait for it, and are sent when it is done (48)', async () => {
  // Upstream: queued by engine, and flushed by the handshake's callback.
  let heardCount = 0
  let shake = (): void => undefined
  const shaken = new Promise<void>((resolve) => (shake = resolve))
  const kinds = [kindOf('push', 'handshake', 0), kindOf('push', 'register', 0)]
  const wrapSideChannel = answering(kinds, (handler, kind) => async (body, from) => {
    const copy = body.slice()
    if (kind === kinds[0]) await shaken
    else heardCount += 1
    return handler(copy, from)
  })
  const cluster = await open({ engine: { p0: { wrapSideChannel } } })
  const journeys = ['a', 'b', 'c'].map((id, prompt) => serve(cluster, { id, prompt }))
  await until(cluster, () => counter(cluster, 'd0', 'loadsStarted') === 3)
  await cluster.world.clock.advance(1_000)
  expect([heardCount, counter(cluster, 'd0', 'handshakesDone')]).toEqual([0, 0])
  shake()
  await until(cluster, () => journeys.every(({ outcome }) => outcome === 'done'))
  expect([heardCount, counter(cluster, 'd0', 'handshakesDone')]).toEqual([3, 1])
  for (const { consumer } of journeys) {
    expect([consumer!.externalTokenCount, consumer!.loadError]).toEqual([30, null])
  }
  await settle(cluster)
})
