/**
 * The host hears what vLLM said and what the shim answered. The golden conversations are replayed without a
 * difference; one wrong answer fails its request, counted, and nothing else.
 */
import {
  InvariantError,
  asRequestId,
  digestTokens,
  silentLogger,
  type ConnectorScheduler,
} from '@kvferry/connector-api'
import { createSimClock } from '@kvferry/connector-api/testing'
import { describe, expect, test } from 'vitest'
import { EngineClock } from '../src/engine-clock.ts'
import { HookReplay } from '../src/hook-replay.ts'
import type { HookEvent } from '../src/messages.ts'
import {
  writeHookScripts,
  type Call,
  type HandingConnector,
  type HookScript,
} from './fixtures/hook-scripts.ts'
import { createEngine } from './fixtures/engine.ts'
import { writePushScripts, type PushCall, type PushScript } from './fixtures/push-scripts.ts'
import {
  keysOf,
  writeReturningScripts,
  type ReturningScript,
} from './fixtures/returning-scripts.ts'

const bytesOf = (hex: string): Uint8Array => Uint8Array.from(Buffer.from(hex, 'hex'))

/** What the shim would have recorded: nothing of requests that name no side. */
function eventsOf({ calls, requests, blockTokens }: HookScript): HookEvent[] {
  const takesPart = (id: string): boolean =>
    requests[id]!.params?.['do_remote_prefill'] === true ||
    requests[id]!.params?.['do_remote_decode'] === true
  return calls.flatMap((call: Call): HookEvent[] => {
    if (call.hook === 'output') {
      return [{ k: 'output', sent: [...call.sent], received: [...call.received] }]
    }
    const { id } = call
    if (!takesPart(id)) return []
    const { prompt, params, ...request } = requests[id]!
    const count = Math.ceil(prompt / blockTokens)
    switch (call.hook) {
      case 'new':
        return [{ k: 'new', id, prompt, digest: bytesOf(request.digest), params: { ...params } }]
      case 'match':
        return [{ k: 'match', id, computed: call.computed, answer: call.tokens ?? 0 }]
      case 'alloc': {
        const blocks = [Array.from({ length: count }, (_, at) => at)]
        return [{ k: 'alloc', id, computed: 0, blocks, external: call.external }]
      }
      case 'finish': {
        const { computed, end, delayFree } = call
        const written = call.params === null ? null : { ...call.params }
        const blocks = [[...call.blocks]]
        return [{ k: 'finish', id, computed, end, blocks, delayFree, params: written }]
      }
    }
  })
}

async function replayOf(
  script: HookScript,
  connector: HandingConnector = 'pull',
): Promise<{ replay: HookReplay; scheduler: ConnectorScheduler }> {
  const { engineId, blockTokens, recomputeThreshold, seed } = script
  const engine = await createEngine({
    ...{ engineId, blockTokens, seed, connector },
    options: { recomputeThreshold },
  })
  const { scheduler } = engine
  return { scheduler, replay: new HookReplay(scheduler, engine.engineClock, silentLogger) }
}

const scripts = await writeHookScripts(8)

const handing = [
  ...scripts.map((script) => ['pull', script.seed, script] as const),
  ...(await writeHookScripts(8, 'xavier')).map(
    (script) => ['xavier', script.seed, script] as const,
  ),
]

test.each(handing)(
  '%s: conversation %i is replayed without a difference',
  async (connector, _, script) => {
    const { replay } = await replayOf(script, connector)
    const events = eventsOf(script)
    const outcomes = events.map((event) => replay.play([event]))
    expect(replay.divergences).toBe(0)
    expect(replay.events).toBe(events.length)
    expect(outcomes.flatMap(({ failed, sent }) => [...failed, ...sent])).toEqual([])
    const finished = outcomes.flatMap((outcome) => [...outcome.finished])
    expect(finished).toEqual(events.flatMap((event) => (event.k === 'finish' ? [event.id] : [])))
  },
)

describe('push', async () => {
  const eventOf = (call: PushCall, { requests }: PushScript): HookEvent | null => {
    if (call.hook === 'step') return null
    if (call.hook === 'output') {
      return { k: 'output', sent: [...call.sent], received: [...call.received] }
    }
    const { id } = call
    const { prompt, params } = requests[id]!
    const blocks = [Array.from({ length: prompt }, (_, at) => at)]
    switch (call.hook) {
      case 'new': {
        const digest = digestTokens(new Uint32Array(prompt))
        return { k: 'new', id, prompt, digest, params: { ...params } }
      }
      case 'match':
        return { k: 'match', id, computed: call.computed, answer: call.tokens ?? 0 }
      case 'alloc':
        return { k: 'alloc', id, computed: 0, blocks, external: call.external }
      case 'finish': {
        const { computed, end, delayFree } = call
        return {
          k: 'finish',
          id,
          computed,
          end,
          blocks: [[...call.blocks]],
          delayFree,
          params: null,
        }
      }
    }
  }

  test.each(await writePushScripts(8))('conversation $seed, steps and all', async (script) => {
    const { engineId, blockTokens, recomputeThreshold, progressive, seed } = script
    const options = { recomputeThreshold, progressive }
    const engine = await createEngine({ engineId, blockTokens, seed, connector: 'push', options })
    const replay = new HookReplay(engine.scheduler, engine.engineClock, silentLogger)
    for (const call of script.calls) {
      const event = eventOf(call, script)
      if (event !== null) replay.play([event])
      else if (call.hook === 'step') {
        engine.scheduler.buildConnectorMeta({
          stepIndex: 0,
          scheduled: Object.entries(call.computed).map(([id, computedTokenCountAfter]) => ({
            ...{ requestId: asRequestId(id), computedTokenCountAfter, newBlockIds: [] },
          })),
          preemptedRequestIds: call.preempted.map(asRequestId),
        })
      }
    }
    expect(replay.divergences).toBe(0)
    expect(engine.scheduler.hasPendingPushWork()).toBe(false)
  })
})

describe('prompts that come back', async () => {
  const takesPart = ({ requests }: ReturningScript, id: string): boolean =>
    Boolean(requests[id]!.params?.['do_remote_decode'])
  const eventsOfReturning = (script: ReturningScript): HookEvent[] =>
    script.calls.flatMap((call): HookEvent[] => {
      if (call.hook === 'output') {
        const { sent, received, matched, at } = call
        const answers = matched.map((answer) => ({ ...answer }))
        return [{ k: 'output', sent: [...sent], received: [...received], matched: answers, at }]
      }
      const { id } = call
      if (!takesPart(script, id)) return []
      const request = script.requests[id]!
      const { prompt, digest, params } = request
      switch (call.hook) {
        case 'new': {
          const keys = keysOf(request, prompt - 1, script.blockTokens)
          const about = { prompt, digest: bytesOf(digest), params: { ...params } }
          return [{ k: 'new', id, ...about, keys }]
        }
        case 'match':
          return [{ k: 'match', id, computed: call.computed, answer: call.tokens, at: call.at }]
        case 'alloc': {
          const blocks = [Array.from({ length: prompt }, (_, at) => at)]
          return [{ k: 'alloc', id, computed: 0, blocks, external: call.external }]
        }
        case 'finish': {
          const { computed, end, delayFree } = call
          const written = call.params === null ? null : { ...call.params }
          const blocks = [[...call.blocks]]
          return [{ k: 'finish', id, computed, end, blocks, delayFree, params: written }]
        }
      }
    })

  // The host's clock stands still: what is decided depends on when the shim was asked.
  test.each(await writeReturningScripts(6))('conversation $seed', async (script) => {
    const { engineId, blockTokens, seed } = script
    const engine = await createEngine({
      ...{ engineId, blockTokens, seed, connector: 'xavier', keepsHistory: true },
    })
    const replay = new HookReplay(engine.scheduler, engine.engineClock, silentLogger)
    const outcomes = eventsOfReturning(script).map((event) => replay.play([event]))
    expect(replay.divergences).toBe(0)
    expect(outcomes.flatMap(({ failed, sent }) => [...failed, ...sent])).toEqual([])
  })
})

/** The first event that matches, with everything before it. */
async function upTo<Kind extends HookEvent['k']>(
  kind: Kind,
  matches: (event: Extract<HookEvent, { k: Kind }>) => boolean,
): Promise<{ replay: HookReplay; event: Extract<HookEvent, { k: Kind }>; after: HookEvent[] }> {
  for (const script of scripts) {
    const events = eventsOf(script)
    const index = events.findIndex(
      (event) => event.k === kind && matches(event as Extract<HookEvent, { k: Kind }>),
    )
    if (index < 0) continue
    const { replay } = await replayOf(script)
    replay.play(events.slice(0, index))
    const event = events[index] as Extract<HookEvent, { k: Kind }>
    return { replay, event, after: events.slice(index + 1) }
  }
  throw new Error(`no such event in the golden conversations: ${kind}`)
}

describe('a wrong answer of the shim', () => {
  test('tokens promised by mistake: the load fails, and is never begun', async () => {
    const { replay, event } = await upTo('match', ({ answer }) => answer === 0)
    expect(replay.play([{ ...event, answer: 7 }]).failed).toEqual([])
    expect(replay.divergences).toBe(1)
    const { id } = event
    const alloc = { k: 'alloc', id, computed: 0, blocks: [[1]], external: 7, fill: [1] } as const
    const { failed } = replay.play([{ ...alloc, blocks: [[1]], fill: [1] }])
    expect(failed).toEqual([{ id, code: 'ERR_KV_HANDOFF_INVALID', message: expect.any(String) }])
  })

  test('blocks kept by mistake are let go', async () => {
    const { replay, event } = await upTo('finish', ({ delayFree }) => !delayFree)
    const outcome = replay.play([{ ...event, delayFree: true, params: { any: 1 } }])
    expect(outcome.sent).toEqual([event.id])
    expect(replay.divergences).toBe(1)
  })

  test('blocks let go by mistake are counted; no handoff of them left the engine', async () => {
    const { replay, event } = await upTo('finish', ({ delayFree }) => delayFree)
    const outcome = replay.play([{ ...event, delayFree: false, params: null }])
    expect(outcome.sent).toEqual([])
    expect(replay.divergences).toBe(1)
  })

  test('another handoff ends the host: a reader may hold it already', async () => {
    const { replay, event } = await upTo('finish', ({ delayFree }) => delayFree)
    const params = { ...event.params, remote_block_ids: [[63]] }
    expect(() => replay.play([{ ...event, params }])).toThrowError(InvariantError)
    expect(replay.divergences).toBe(1)
  })

  test('a hook that throws fails its request alone', async () => {
    const { replay, event, after } = await upTo('alloc', ({ external }) => external > 4)
    const { failed } = replay.play([{ ...event, external: event.external + 1 }])
    expect(failed.map(({ id }) => id)).toEqual([event.id])
    const others = after.filter((later) => later.k === 'new' || later.k === 'match')
    replay.play(others.filter((later) => 'id' in later && later.id !== event.id))
    expect(replay.divergences).toBe(1)
  })

  test('a request that was never introduced', async () => {
    const { replay } = await replayOf(scripts[0]!)
    const match = { k: 'match', id: 'stranger', computed: 0, answer: 3 } as const
    expect(replay.play([match]).failed).toEqual([])
    expect(replay.divergences).toBe(1)
  })
})

test('a failure is told to the scheduler half with the word of the engine', () => {
  const outputs: unknown[] = []
  const scheduler = {
    updateConnectorOutput: (output: unknown) => outputs.push(output),
  } as unknown as ConnectorScheduler
  const replay = new HookReplay(scheduler, new EngineClock(createSimClock(1)), silentLogger)
  const requestId = asRequestId('r')
  const failure = { requestId, blockIds: [Uint32Array.of(1)], error: null as never }
  replay.noteFailure(failure)
  const output = { k: 'output', sent: [], received: ['r'] } as const
  replay.play([{ ...output, sent: [], received: ['r'] }])
  replay.play([{ ...output, sent: [], received: ['r'] }])
  expect(outputs).toEqual([
    { sent: [], received: ['r'], failed: [failure], matched: [] },
    { sent: [], received: ['r'], failed: [], matched: [] },
  ])
})
