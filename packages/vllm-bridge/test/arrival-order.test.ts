/** What peers say is heard after what the engine had said before, and among themselves in their order. */
import { setImmediate as turn } from 'node:timers/promises'
import type { AgentListener, SideChannel, TransferAgent } from '@kvferry/connector-api'
import { expect, test } from 'vitest'
import {
  createAfterEngine,
  orderedSideChannel,
  orderNotifications,
  type EngineWord,
} from '../src/arrival-order.ts'

/** An engine whose words arrive and are played when the test says so. */
function createEngine() {
  const log: string[] = []
  let playing: Promise<void> = Promise.resolve()
  const word = {
    receivedBytes: 0,
    played: () => playing,
    /** Bytes arrive; the step in them is played a few turns later. */
    say(text: string): void {
      word.receivedBytes += text.length
      playing = playing.then(async () => {
        await turn()
        await turn()
        log.push(text)
      })
    },
  } satisfies EngineWord & { say(text: string): void }
  return { word, log, afterEngine: createAfterEngine(word) }
}

test('a word that is readable, and not read yet, comes first', async () => {
  const { word, log, afterEngine } = createEngine()
  const asked = afterEngine().then(() => log.push('question'))
  // As when two sockets are ready at once, and the peer's is looked at first.
  setImmediate(() => word.say('announce'))
  await asked
  expect(log).toEqual(['announce', 'question'])
})

test('as long as words keep coming in, they come first', async () => {
  const { word, log, afterEngine } = createEngine()
  const asked = afterEngine().then(() => log.push('question'))
  for (const text of ['one', 'two', 'three']) {
    await turn()
    word.say(text)
  }
  await asked
  expect(log).toEqual(['one', 'two', 'three', 'question'])
})

test('questions keep their order, whenever they came', async () => {
  const { word, log, afterEngine } = createEngine()
  const asked: Promise<unknown>[] = []
  for (let index = 0; index < 20; index++) {
    asked.push(afterEngine().then(() => log.push(`q${index}`)))
    if (index % 3 === 0) word.say(`w${index}`)
    if (index % 2 === 0) await turn()
  }
  await Promise.all(asked)
  const questions = log.filter((text) => text.startsWith('q'))
  expect(questions).toEqual(Array.from({ length: 20 }, (_, index) => `q${index}`))
})

test('a silent engine delays nobody for long', async () => {
  const { afterEngine } = createEngine()
  let turns = 0
  const counting = (async () => {
    for (; turns < 100; turns++) await turn()
  })()
  await afterEngine()
  expect(turns).toBeLessThan(10)
  await counting
})

test('handlers of the side channel and notifications wait; completions do not', async () => {
  const { word, log, afterEngine } = createEngine()
  let handler: ((body: Uint8Array) => unknown) | null = null
  const channel = { handle: (_: string, given: never) => (handler = given) }
  const ordered = orderedSideChannel(channel as unknown as SideChannel, afterEngine)
  ordered.handle('renew', () => {
    log.push('answer')
    return Uint8Array.of(7)
  })
  let listener: AgentListener | null = null
  const agent = { setListener: (given: AgentListener) => (listener = given) }
  orderNotifications(agent as unknown as TransferAgent, afterEngine)
  agent.setListener({
    onCompletions: () => log.push('completion'),
    onNotifications: () => log.push('read-done'),
    onBroken: () => log.push('broken'),
  } as unknown as AgentListener)
  const answer = handler!(Uint8Array.of())
  listener!.onNotifications([])
  listener!.onCompletions([])
  setImmediate(() => word.say('announce'))
  expect(await answer).toEqual(Uint8Array.of(7))
  await turn()
  expect(log).toEqual(['completion', 'announce', 'answer', 'read-done'])
})
