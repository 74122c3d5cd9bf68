/** What `handlePreemptions` waits for: blocks that a WRITE reads must not get new owners. */
import { createWorld, Engine, until } from '@kvferry/connector-api/testing'
import { expect, test } from 'vitest'
import { push } from '../src/index.ts'
import { pushLimits } from '../src/limits.ts'

const tokenCount = 8
/** Whose bytes P's blocks hold: the prompt's, and those of whoever gets them next. */
const [prompt, another] = [1, 2]

/** D has registered for a prompt of P's; WRITEs to it make no progress until `release`. */
async function meet(options: Record<string, unknown> = {}) {
  const world = createWorld({ factory: push })
  const { clock, fabric } = world
  const p = await Engine.start(world, { engineId: 'p0', options })
  const d = await Engine.start(world, { engineId: 'd0' })
  const prefill = p.admit('r', tokenCount, { do_remote_decode: true, transfer_id: 'x' })
  p.step()
  const request = d.admit('r', tokenCount, {
    ...{ do_remote_prefill: true, transfer_id: 'x', tp_size: 1, remote_engine_id: 'p0' },
    ...{ remote_host: '127.0.0.1', remote_port: p.sideChannel.address.port },
  })
  d.step()
  await clock.advance(100)
  fabric.faults.stall(d.agent.name)
  const compute = async (computedTokenCountAfter: number, newBlockIds: Uint32Array[] = []) => {
    const { requestId } = prefill.view
    await p.fill(prefill, prompt)
    p.host.bind(p.host.buildMeta([{ requestId, computedTokenCountAfter, newBlockIds }], []))
    p.host.save(null)
    await clock.advance(10)
  }
  /** P's engine takes the request's blocks away, once it may. */
  const preempt = () => {
    const meta = p.host.buildMeta([], ['r'])
    const wait = { isOver: false }
    void p.host.handlePreemptions(meta).then(() => {
      wait.isOver = true
      p.host.bind(meta)
      return p.fill(prefill, another)
    })
    return wait
  }
  const release = (): void => fabric.faults.unstall(d.agent.name)
  const isWriting = (): boolean => p.agent.counters().transfersOpen > 0
  const isLoadedRight = (): Promise<boolean> => d.isLoadedRight(request, prompt)
  return {
    ...{ world, clock, p, prefill, request },
    ...{ compute, preempt, release, isWriting, isLoadedRight },
  }
}

const complaints = ({ logs }: Engine): string[] =>
  logs.filter((line) => line.includes('waits for the end of its WRITE'))

test('the last WRITE of a prompt is waited for however long it takes, and D gets right bytes', async () => {
  const met = await meet()
  const { world, clock, p, request, compute, preempt, release, isWriting } = met
  await compute(tokenCount)
  expect(isWriting()).toBe(true)
  const wait = preempt()
  await clock.advance(pushLimits.preemptionWaitMs - 1)
  expect(complaints(p)).toEqual([])
  await clock.advance(pushLimits.preemptionWaitMs)
  expect(wait.isOver).toBe(false)
  expect(complaints(p)).toHaveLength(1)
  release()
  await until(world, () => wait.isOver)
  expect(isWriting()).toBe(false)
  await until(world, () => request.outcome === 'loaded')
  expect(await met.isLoadedRight()).toBe(true)
})

test('a chunk is waited for up to a limit; then its registration fails, and its bytes stay unused', async () => {
  const { world, clock, p, request, compute, preempt, release, isWriting } = await meet({
    progressive: true,
  })
  await compute(tokenCount / 2)
  expect(isWriting()).toBe(true)
  const wait = preempt()
  await clock.advance(pushLimits.preemptionWaitMs - 1)
  expect(wait.isOver).toBe(false)
  await clock.advance(1)
  expect(wait.isOver).toBe(true)
  expect(complaints(p)).toEqual([])
  // The WRITE is open: until it has ended, D's blocks are not told to be D's.
  await clock.advance(1_000)
  expect([isWriting(), request.outcome]).toEqual([true, 'loading'])
  release()
  await until(world, () => request.outcome === 'failed')
  expect(request.errorCode).toBe('ERR_KV_CLOSED')
})

test('a chunk that ends in time ends the wait, and the prompt is written anew from its beginning', async () => {
  const met = await meet({ progressive: true })
  const { world, p, prefill, request, compute, preempt, release } = met
  await compute(tokenCount / 2)
  const wait = preempt()
  expect(wait.isOver).toBe(false)
  release()
  await until(world, () => wait.isOver, pushLimits.preemptionWaitMs - 1)
  const before = p.agent.counters().bytesMoved
  await compute(tokenCount, [prefill.blocks])
  await until(world, () => request.outcome === 'loaded')
  // Its first half twice: as a chunk, and with the rest.
  expect(p.agent.counters().bytesMoved - before).toBe(2 * before)
  expect(await met.isLoadedRight()).toBe(true)
})

test('where nothing is being written the engine does not wait at all', async () => {
  const { world, clock, compute, preempt, release, isWriting } = await meet({ progressive: true })
  release()
  await compute(tokenCount / 2)
  await until(world, () => !isWriting())
  const wait = preempt()
  await clock.advance(0)
  expect(wait.isOver).toBe(true)
})
