/**
 * The scheduler half, hook by hook: what it tells its worker half, and what the engine learns from it. The
 * numbers in the titles are upstream's tests (docs/reference/upstream-tests.md).
 */
import { expect, test } from 'vitest'
import {
  asEngineId,
  asIncarnation,
  asRequestId,
  rankKey,
  silentLogger,
  silentMetrics,
  type FinishReason,
  type KvTransferParams,
  type RequestView,
  type ScheduledRequest,
} from '@kvferry/connector-api'
import { createSeededRandom, createSimClock } from '@kvferry/connector-api/testing'
import { push } from '../src/index.ts'
import { decodeMetadata } from '../src/metadata.ts'
import { parseParams } from '../src/params.ts'

const blockTokens = 4
const requestId = asRequestId('r')
const promptDigest = new Uint8Array(32).fill(7)
const own = { engineId: asEngineId('own'), tpSize: 1 }

const toLoad = {
  do_remote_prefill: true,
  transfer_id: 't-1',
  remote_engine_id: 'p0',
  remote_host: '127.0.0.1',
  remote_port: 5_600,
  remote_request_id: 'elsewhere',
  tp_size: 1,
}
const toSend = { do_remote_decode: true, transfer_id: 't-1' }

const request = (
  kvTransferParams: KvTransferParams | null,
  promptTokenCount = 10,
  finishReason: FinishReason | null = null,
): RequestView => ({
  ...{ requestId, promptTokenCount, promptDigest, kvTransferParams, finishReason },
  computedTokenCount: finishReason === null ? 0 : promptTokenCount,
})

const blocks = (...ids: number[]) => [Uint32Array.from(ids)]

function createScheduler(options: Record<string, unknown> = {}) {
  const scheduler = push.createScheduler({
    ...{ engineId: own.engineId, incarnation: asIncarnation('life'), blockTokens },
    config: {
      ...{ connector: 'push', role: 'both', engineId: own.engineId, peers: null, path: 'auto' },
      ...{ loadFailurePolicy: 'recompute', bufferDevice: 'device' },
      sideChannel: { host: '127.0.0.1', port: 5_600, insecure: false, tls: null },
      nixl: { backends: ['UCX'], libraryPath: null },
      options: push.parseOptions(options),
    },
    ...{ clock: createSimClock(1), random: createSeededRandom(1), requestStep() {} },
    ...{ logger: silentLogger, metrics: silentMetrics },
  })
  scheduler.setHandshakeMetadata(new Map([[rankKey(0, 0), new Uint8Array(0)]]))
  let stepIndex = 0
  return {
    scheduler,
    /** What the next step tells the worker half. */
    step(scheduled: readonly ScheduledRequest[] = []) {
      const step = { stepIndex: stepIndex++, scheduled, preemptedRequestIds: [] }
      return decodeMetadata(scheduler.buildConnectorMeta(step))
    },
  }
}

/** A producer's request whose whole prompt the next step computes. */
function startProducing(of: ReturnType<typeof createScheduler>) {
  of.scheduler.onNewRequest(request(toSend))
  of.scheduler.updateStateAfterAlloc(request(toSend), blocks(5, 6, 7), 0)
  return of.step([{ requestId, computedTokenCountAfter: 10, newBlockIds: [] }])
}

test('40: a registration is told once, with its transfer, its producer, its prompt and its blocks', () => {
  const { scheduler, step } = createScheduler()
  scheduler.onNewRequest(request(toLoad))
  expect(scheduler.getNumNewMatchedTokens(request(toLoad), 0)).toEqual({
    tokens: 10,
    isAsync: true,
  })
  scheduler.updateStateAfterAlloc(request(toLoad), blocks(3, 1, 2), 10)
  const producer = { engineId: 'p0', host: '127.0.0.1', port: 5_600, tpSize: 1 }
  const prompt = { tokenCount: 10, digest: promptDigest }
  expect(step()).toEqual([
    { kind: 'offer', requestId, transferId: 't-1', producer, prompt },
    { kind: 'load', requestId, localBlockIds: blocks(3, 1, 2), tokenEnd: 10 },
  ])
  expect(step()).toEqual([])
})

test('41: a prefill is told with its transfer, its computed blocks once, its end once', () => {
  const made = createScheduler()
  const prompt = { tokenCount: 10, digest: promptDigest }
  expect(startProducing(made)).toEqual([
    { kind: 'announce', requestId, transferId: 't-1', prompt },
    {
      ...{ kind: 'computed', requestId, tokenEnd: 10, isLast: true },
      ...{ firstBlock: 0, blockIds: Uint32Array.of(5, 6, 7) },
    },
  ])
  const end = made.scheduler.requestFinished(request(toSend, 10, 'length-capped'), blocks(5, 6, 7))
  expect(end).toEqual({ delayFree: true, kvTransferParams: null })
  expect(made.step()).toEqual([{ kind: 'finish', requestId }])
  expect(made.step()).toEqual([])
})

test('42, 43: an engine whose blocks wait for a WRITE goes on stepping until the report, and an unknown one is nothing', () => {
  const made = createScheduler()
  const { scheduler } = made
  const report = (id: string) =>
    scheduler.updateConnectorOutput({ sent: [asRequestId(id)], received: [], failed: [] })
  startProducing(made)
  expect(scheduler.hasPendingPushWork()).toBe(false)
  scheduler.requestFinished(request(toSend, 10, 'length-capped'), blocks(5, 6, 7))
  expect(scheduler.hasPendingPushWork()).toBe(true)
  made.step()
  report('unknown')
  expect(scheduler.hasPendingPushWork()).toBe(true)
  report('r')
  expect(scheduler.hasPendingPushWork()).toBe(false)
  report('r')
  expect([scheduler.hasPendingPushWork(), scheduler.hasPendingBlockFrees()]).toEqual([false, false])
  // Forgotten: the id may come again.
  expect(startProducing(made).map(({ kind }) => kind)).toEqual(['announce', 'computed'])
})

test('45: without params there is nothing to do', () => {
  const { scheduler, step } = createScheduler()
  scheduler.onNewRequest(request(null))
  expect(scheduler.getNumNewMatchedTokens(request(null), 0)).toEqual({ tokens: 0, isAsync: false })
  scheduler.updateStateAfterAlloc(request(null), blocks(1), 0)
  const end = scheduler.requestFinished(request(null, 10, 'stopped'), blocks(1))
  expect(end).toEqual({ delayFree: false, kvTransferParams: null })
  expect(step()).toEqual([])
})

test('45: nothing to load is no registration: the producer is told that it may free', () => {
  const { scheduler, step } = createScheduler()
  scheduler.onNewRequest(request(toLoad))
  expect(scheduler.getNumNewMatchedTokens(request(toLoad), 10).tokens).toBe(0)
  scheduler.updateStateAfterAlloc(request(toLoad), blocks(1, 2, 3), 0)
  expect(step().map(({ kind }) => kind)).toEqual(['offer', 'release'])
})

test.each(['aborted', 'failed'] as const)(
  '45: a prefill that ended %s is never told as finished',
  (finishReason) => {
    const made = createScheduler()
    startProducing(made)
    made.scheduler.requestFinished(request(toSend, 10, finishReason), blocks(5, 6, 7))
    expect(made.step().map(({ kind }) => kind)).not.toContain('finish')
  },
)

test('45: a prefill that ended without blocks holds none, and is withdrawn', () => {
  const { scheduler, step } = createScheduler()
  scheduler.onNewRequest(request(toSend))
  step()
  expect(scheduler.requestFinished(request(toSend, 10, 'aborted'), [])).toEqual({
    delayFree: false,
    kvTransferParams: null,
  })
  expect(step()).toEqual([{ kind: 'withdraw', requestId }])
})

test('61: a local hit shortens the load at its beginning; without one nothing is cut', () => {
  for (const [hitTokens, expected] of [
    [0, [1, 2, 3]],
    [4, [2, 3]],
    [8, [3]],
  ] as const) {
    const { scheduler, step } = createScheduler()
    scheduler.onNewRequest(request(toLoad))
    const { tokens } = scheduler.getNumNewMatchedTokens(request(toLoad), hitTokens)
    expect(tokens).toBe(10 - hitTokens)
    scheduler.updateStateAfterAlloc(request(toLoad), blocks(1, 2, 3), tokens ?? 0)
    const localBlockIds = blocks(...expected)
    expect(step()[1]).toEqual({ kind: 'load', requestId, localBlockIds, tokenEnd: 10 })
  }
})

test('59: a producer of several pipeline stages is refused by name before any token is promised', () => {
  const parsed = parseParams({ ...toLoad, pp_size: 2 }, own)
  expect(parsed).toMatchObject({ kind: 'malformed', error: { code: 'ERR_KV_UNSUPPORTED' } })
  const { scheduler, step } = createScheduler()
  const refused = request({ ...toLoad, pp_size: 2 })
  scheduler.onNewRequest(refused)
  expect(scheduler.getNumNewMatchedTokens(refused, 0)).toEqual({ tokens: 0, isAsync: false })
  scheduler.updateStateAfterAlloc(refused, blocks(1, 2, 3), 0)
  expect(step()).toEqual([])
})
