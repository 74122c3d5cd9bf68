/** After its shutdown a worker half leaves no timer, whatever was under way, and arms none when it is asked. */
import type { Clock, ConnectorFactory, SideChannel, WorkerComponents } from '@kvferry/connector-api'
import { protocolLimits } from '@kvferry/connector-api/protocol'
import {
  createWorld,
  Engine,
  until,
  type EngineOptions,
  type World,
} from '@kvferry/connector-api/testing'
import { expect, test } from 'vitest'
import { push } from '../src/index.ts'
import { PreemptionWait } from '../src/preemption-wait.ts'
import type { RendezvousTable } from '../src/rendezvous-table.ts'

const tokenCount = 8
const patienceMs = 4 * protocolLimits.shutdownDrainMs

/** The same clock, and how many of its timers one party has armed. */
function counting(clock: Clock) {
  const timers = new Set<object>()
  const counted: Clock = {
    now: () => clock.now(),
    after(delayMs, callback) {
      const key = {}
      timers.add(key)
      const timer = clock.after(delayMs, () => {
        timers.delete(key)
        callback()
      })
      const stop = (): void => {
        timers.delete(key)
        timer.stop()
      }
      return { stop }
    },
  }
  return { clock: counted, timers }
}

async function closeEngine(world: World, { host }: Engine): Promise<void> {
  await world.clock.wait(host.shutdown(), patienceMs)
}

/** D has registered for what P writes as soon as it is told to. */
async function meet(consumer: Partial<EngineOptions> = {}) {
  const world = createWorld({ factory: push })
  const [pTime, dTime] = [counting(world.clock), counting(world.clock)]
  const p = await Engine.start(world, { engineId: 'p0', clock: pTime.clock })
  const d = await Engine.start(world, { engineId: 'd0', clock: dTime.clock, ...consumer })
  const prefill = p.admit('r', tokenCount, { do_remote_decode: true, transfer_id: 'x' })
  const request = d.arrive('r', tokenCount, {
    ...{ do_remote_prefill: true, transfer_id: 'x', tp_size: 1, remote_engine_id: 'p0' },
    ...{ remote_host: '127.0.0.1', remote_port: p.sideChannel.address.port },
  })
  const compute = (): void => {
    const { requestId } = prefill.view
    const scheduled = { requestId, computedTokenCountAfter: tokenCount, newBlockIds: [] }
    p.host.bind(p.host.buildMeta([scheduled], []))
    p.host.save(null)
  }
  return { world, p, d, request, compute, pTimers: pTime.timers, dTimers: dTime.timers }
}

test('a producer with an open WRITE: who withdraws it is told so, and no timer waits for the end', async () => {
  const { world, p, d, request, compute, pTimers } = await meet()
  d.allocate(request)
  d.step()
  compute()
  await until(world, () => p.agent.counters().transfersPosted > 0)
  world.fabric.faults.stall(d.agent.name)
  await closeEngine(world, p)
  expect(pTimers.size).toBe(0)
  d.finish('r', 'aborted')
  d.step()
  for (let count = 0; count < 30; count++) {
    await world.clock.advance(200)
    expect(pTimers.size).toBe(0)
  }
  expect(request.outcome).toBe('ended')
  world.fabric.faults.unstall(d.agent.name)
  await until(world, () => request.outcome === 'freed')
})

test('a consumer whose handshake is under way', async () => {
  const { world, d, dTimers } = await meet()
  d.step()
  await closeEngine(world, d)
  await world.clock.advance(patienceMs)
  expect(dTimers.size).toBe(0)
})

test('a consumer whose last work on the bytes ends with it', async () => {
  let release = (): void => {}
  const held = new Promise<void>((resolve) => (release = resolve))
  const relayout = (): Promise<void> => held
  const withSlowKernels = (components: WorkerComponents): WorkerComponents => ({
    ...components,
    kernels: { ...components.kernels!, relayout },
  })
  const factory: ConnectorFactory = {
    ...push,
    createWorker: (components, rank) => push.createWorker(withSlowKernels(components), rank),
  }
  // The producer's measurements are lost, so that the load would wait for them.
  const wrapSideChannel = (channel: SideChannel): SideChannel => ({
    ...{ address: channel.address, identity: channel.identity, close: () => channel.close() },
    connect: (address, options) => channel.connect(address, options),
    onAssociationEnd: (listener) => channel.onAssociationEnd(listener),
    handle: (kind, handler) =>
      channel.handle(kind, kind === 'push.done' ? () => new Uint8Array() : handler),
  })
  const consumer = { factory, blockTokens: 8, wrapSideChannel }
  const { world, d, request, compute, dTimers } = await meet(consumer)
  d.allocate(request)
  d.step()
  compute()
  await world.clock.advance(1_000)
  const closed = d.host.shutdown()
  await world.clock.advance(patienceMs)
  release()
  await world.clock.wait(closed, patienceMs)
  await world.clock.advance(10)
  expect(request.outcome).toBe('loaded')
  expect(dTimers.size).toBe(0)
})

test('a preemption that waits for a WRITE without end goes on waiting, without a timer', async () => {
  const world = createWorld({ factory: push })
  const { clock, timers } = counting(world.clock)
  let isOpen = true
  const part = { state: { kind: 'writing' } }
  const table = { tell() {}, openPartsOf: () => (isOpen ? [part] : []) }
  const wait = new PreemptionWait(
    { clock } as unknown as WorkerComponents,
    table as unknown as RendezvousTable,
  )
  let isOver = false
  const over = wait.of([]).then(() => (isOver = true))
  expect(timers.size).toBe(1)
  wait.close()
  expect(timers.size).toBe(0)
  await world.clock.advance(patienceMs)
  expect(isOver).toBe(false)
  isOpen = false
  wait.check()
  await over
})
