/** The order of hooks in a step, the steps of the host's own, and what goes back to the shim. */
import {
  ConnectorError,
  InvariantError,
  asRequestId,
  silentLogger,
  type ConnectorScheduler,
  type ConnectorWorker,
  type TransferAgent,
  type WorkerOutput,
} from '@kvferry/connector-api'
import { createSimClock } from '@kvferry/connector-api/testing'
import { expect, test } from 'vitest'
import { EngineClock } from '../src/engine-clock.ts'
import { HostCore } from '../src/host-core.ts'
import { bridgeLimits } from '../src/limits.ts'
import type { HostMessage, StepMessage } from '../src/messages.ts'

const nothing: WorkerOutput = { sent: [], received: [], failed: [] }
const counters = { transfersDone: 2, transfersFailed: 0, transfersOpen: 1, bytesMoved: 640 }

/** A core around halves that only write down what is called. */
function createCore() {
  const log: string[] = []
  const sent: HostMessage[] = []
  const broken: Error[] = []
  const state = { output: nothing, hasPendingFrees: false, onMeta: () => {} }
  const clock = createSimClock(1)
  const scheduler: Partial<ConnectorScheduler> = {
    buildConnectorMeta({ stepIndex, scheduled, preemptedRequestIds }) {
      const shown = scheduled.map((part) => {
        const blocks = part.newBlockIds.map((ids) => ids.join(' ')).join(';')
        return `${part.requestId}:${part.computedTokenCountAfter}:${blocks}`
      })
      log.push(`meta ${stepIndex} [${shown}] [${preemptedRequestIds}]`)
      state.onMeta()
      return Uint8Array.of(stepIndex)
    },
    updateConnectorOutput: ({ sent: ids, received }) =>
      void log.push(`output [${ids}] [${received}]`),
    hasPendingBlockFrees: () => state.hasPendingFrees,
    hasPendingPushWork: () => false,
  }
  const worker: Partial<ConnectorWorker> = {
    async handlePreemptions([index]) {
      await Promise.resolve()
      log.push(`preemptions ${index}`)
    },
    bindConnectorMetadata: ([index]) => void log.push(`bind ${index}`),
    waitForSave: () => void log.push('save'),
    getTransferResults() {
      const { output } = state
      state.output = nothing
      log.push('results')
      return output
    },
    getStats: () => ({ loads: [], counters: { loadsDone: 5 } }),
  }
  const core = new HostCore({
    clock,
    engineClock: new EngineClock(clock),
    logger: silentLogger,
    scheduler: scheduler as ConnectorScheduler,
    worker: worker as ConnectorWorker,
    agent: { counters: () => counters } as unknown as TransferAgent,
    send: (message) => void sent.push(message),
    onBroken: (error) => void broken.push(error),
  })
  return { core, log, sent, broken, state, clock }
}

const step = (index: number, over: Partial<StepMessage> = {}): StepMessage => ({
  ...{ t: 'step', index, scheduled: [], preempted: [], events: [], settle: false, save: false },
  ...over,
})

test('one step: every hook once, in vLLM’s order', async () => {
  const { core, log, clock } = createCore()
  core.step(
    step(4, {
      scheduled: [
        { id: 'a', computed: 32, blocks: [[]] },
        { id: 'b', computed: 7, blocks: [[5, 6]] },
      ],
      preempted: ['c'],
    }),
  )
  await clock.advance(0)
  expect(log).toEqual(['meta 4 [a:32:,b:7:5 6] [c]', 'preemptions 4', 'bind 4', 'save', 'results'])
})

test('steps are played one after the other, in the order of arrival', async () => {
  const { core, log, clock } = createCore()
  const output = { k: 'output', sent: ['p'], received: [] } as const
  core.step(step(1))
  core.step(step(2, { events: [{ ...output, sent: ['p'], received: [] }] }))
  await clock.advance(0)
  const order = log.filter((line) => /^(meta|bind|output)/.test(line))
  expect(order).toEqual(['meta 1 [] []', 'bind 1', 'output [p] []', 'meta 2 [] []', 'bind 2'])
})

test('what ended is sent at once; nothing is sent when nothing ended', async () => {
  const { core, sent, state, clock } = createCore()
  core.step(step(1))
  await clock.advance(0)
  expect(sent).toEqual([])
  const requestId = asRequestId('bad')
  const error = new ConnectorError('ERR_KV_CLOSED', 'gone', { what: 'x' })
  state.output = {
    sent: [asRequestId('p')],
    received: [asRequestId('good'), requestId],
    failed: [{ requestId, blockIds: [Uint32Array.of(3)], error }],
  }
  core.requestStep()
  await clock.advance(0)
  const failed = [{ id: 'bad', code: 'ERR_KV_CLOSED', message: 'gone' }]
  const ended = { sent: ['p'], received: ['good', 'bad'], failed, matched: [] }
  expect(sent).toEqual([{ t: 'results', ...ended }])
})

test('what the history has of a prompt is sent at once, also when nothing ended', async () => {
  const { core, sent, state, clock } = createCore()
  const answer = { requestId: asRequestId('again'), question: 7, blockCount: 3 }
  state.output = { ...nothing, matched: [answer] }
  core.step(step(1))
  await clock.advance(0)
  const matched = [{ id: 'again', question: 7, blocks: 3 }]
  expect(sent).toEqual([{ t: 'results', sent: [], received: [], failed: [], matched }])
})

test('many wakes make one step', async () => {
  const { core, log, clock } = createCore()
  for (let count = 0; count < 5; count++) core.requestStep()
  await clock.advance(0)
  expect(log.filter((line) => line.startsWith('meta'))).toHaveLength(1)
})

test('a wake during a step is not lost', async () => {
  const { core, log, state, clock } = createCore()
  let isFirst = true
  state.onMeta = () => {
    if (isFirst) core.requestStep()
    isFirst = false
  }
  core.step(step(1))
  await clock.advance(0)
  expect(log.filter((line) => line.startsWith('meta'))).toHaveLength(2)
})

test('while the connector waits for a step, the host makes its own', async () => {
  const { core, log, state, clock } = createCore()
  state.hasPendingFrees = true
  core.step(step(1))
  await clock.advance(3 * bridgeLimits.idleStepIntervalMs + 1)
  expect(log.filter((line) => line.startsWith('meta'))).toHaveLength(4)
  state.hasPendingFrees = false
  await clock.advance(10 * bridgeLimits.idleStepIntervalMs)
  expect(log.filter((line) => line.startsWith('meta'))).toHaveLength(5)
  expect(clock.pendingCount).toBe(0)
})

test('a settling step says so after the preemptions are handled, before its loads leave', async () => {
  const { core, log, sent, clock } = createCore()
  core.step(step(1, { preempted: ['a'], settle: true }))
  await clock.advance(0)
  expect(sent).toEqual([{ t: 'settled' }])
  expect(log.indexOf('preemptions 1')).toBeLessThan(log.indexOf('bind 1'))
})

test('what a forward computes leaves when it has ended', async () => {
  const { core, log, clock } = createCore()
  core.step(step(3, { save: true }))
  await clock.advance(0)
  expect(log).toEqual(['meta 3 [] []', 'preemptions 3', 'bind 3', 'results'])
  core.saved()
  await clock.advance(0)
  expect(log.slice(4)).toEqual(['save'])
  core.saved()
  await clock.advance(0)
  expect(log.slice(5)).toEqual([])
})

test('while a forward runs, a wake waits for its end', async () => {
  const { core, log, clock } = createCore()
  core.step(step(3, { save: true }))
  core.requestStep()
  core.requestStep()
  await clock.advance(0)
  expect(log.filter((line) => line.startsWith('meta'))).toHaveLength(1)
  core.saved()
  await clock.advance(0)
  expect(log.filter((line) => /meta|save/.test(line))).toEqual([
    ...['meta 3 [] []', 'save', 'meta 3 [] []', 'save'],
  ])
})

test('a wake that came before a forward ended is not lost, nor made twice', async () => {
  const { core, log, clock } = createCore()
  core.step(step(3, { save: true }))
  await clock.advance(0)
  core.saved()
  core.requestStep()
  await clock.advance(0)
  core.requestStep()
  await clock.advance(0)
  expect(log.filter((line) => line.startsWith('meta'))).toHaveLength(3)
})

test('the next step says that a forward has ended, where nobody else did', async () => {
  const { core, log, clock } = createCore()
  core.step(step(3, { save: true }))
  core.step(step(4))
  await clock.advance(0)
  const order = log.filter((line) => /^(meta|save)/.test(line))
  expect(order).toEqual(['meta 3 [] []', 'save', 'meta 4 [] []', 'save'])
})

test('a broken invariant ends the host, and nothing is played after it', async () => {
  const { core, log, broken, state, clock } = createCore()
  state.onMeta = () => {
    throw new InvariantError('for the test')
  }
  core.step(step(1))
  core.step(step(2))
  await clock.advance(0)
  expect(broken.map(({ message }) => message)).toEqual(['for the test'])
  expect(log).toEqual(['meta 1 [] []'])
})

test('after close nothing begins, and no timer is left', async () => {
  const { core, log, state, clock } = createCore()
  state.hasPendingFrees = true
  core.step(step(1))
  await clock.advance(0)
  const length = log.length
  await core.close()
  core.step(step(2))
  core.requestStep()
  await clock.advance(1_000)
  expect(log).toHaveLength(length)
  expect(clock.pendingCount).toBe(0)
})

test('counters are totals of connector, agent and host', async () => {
  const { core, clock } = createCore()
  core.step(step(1))
  await clock.advance(0)
  const own = { loadsDone: 5, steps: 1, events: 0, divergences: 0 }
  expect(core.counters()).toEqual({ ...counters, ...own })
})
