/** History against a simple model, and its safety under copies that fail, come late or never end. */
import type { HistoryLease, HistoryPolicyName } from '@kvferry/connector-api'
import { createSeededRandom } from '@kvferry/connector-api/testing'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { HistoryModel } from './fixtures/history-model.ts'
import { createWorld, keysOf } from './fixtures/world.ts'

/** Prompts that share beginnings: a path in a small tree, so that the name of a block says its whole prefix. */
const arbitraryPrompt = fc
  .array(fc.nat(2), { minLength: 1, maxLength: 6 })
  .map((path) => path.map((_, index) => path.slice(0, index + 1).join('.')))

const arbitraryOperation = fc.oneof(
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('offer'), prompt: arbitraryPrompt }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('reserve'), prompt: arbitraryPrompt }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('release'), prompt: arbitraryPrompt }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('load'), prompt: arbitraryPrompt }) },
)

test('holds what the model holds, in the tier where the model has it, and counts the same', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(arbitraryOperation, { maxLength: 40 }),
      fc.nat(4),
      fc.nat(4),
      fc.constantFrom('observed-reuse' as const, 'copy-on-eviction' as const),
      async (operations, device, host, policy) => {
        const options = { device, host, candidateCountMax: 4, probationCountMax: 5, policy }
        if (device + host === 0) return
        const model = new HistoryModel({
          ...options,
          candidateCountMax: Math.min(4, device + host),
          probationCountMax: Math.min(5, 2 * (device + host)),
        })
        const bounds = {
          chunkBlockCountMax: 1,
          candidateSizeBytesMax: 4 * 1_024,
          probationKeyCountMax: 5,
        }
        const world = createWorld({ device, host, policy, bounds })
        const leases: HistoryLease[] = []
        for (const { kind, prompt } of operations) {
          if (kind === 'offer') {
            model.offer(prompt)
            await world.save(...prompt)
          } else if (kind === 'reserve') {
            const reservation = world.history.reserve(keysOf(prompt), 0)
            expect(reservation !== null).toBe(model.reserve(prompt))
            if (reservation !== null) leases.push(reservation.lease)
          } else if (kind === 'release' && leases.length > 0) {
            world.history.release(leases.shift()!)
            model.leases.shift()
          } else if (kind === 'load') {
            expect(await world.load(...prompt)).toBe(model.run(prompt).length)
            if (model.reserve(prompt)) model.leases.pop()
          }
          const deviceBlocks = model.entries.filter(({ tier }) => tier === 'device').length
          expect(world.history.gauges()).toMatchObject({
            deviceBlocks,
            hostBlocks: model.entries.length - deviceBlocks,
            leasesOpen: model.leases.length,
          })
          for (const { name } of model.entries) expect(world.isStored(name), name).toBe(true)
          const counters = world.history.counters()
          expect(counters).toMatchObject({
            historyAdmissionRejectedBlocks: model.rejected,
            historyDemotions: model.demotions,
            historyEvictedBlocks: model.evicted,
          })
          const limited =
            counters.historyCapacityLimitedByReaders +
            counters.historyCapacityLimitedByRequest +
            counters.historyCapacityLimitedByTiers
          expect(limited).toBe(model.limited)
        }
      },
    ),
    { numRuns: 300 },
  )
})

test('no copy meets another, what is restored is right, and nothing leaks, whatever copies do', async () => {
  const arbitraryPolicy = fc.constantFrom<HistoryPolicyName>(
    'observed-reuse',
    'copy-on-eviction',
    'write-through',
  )
  await fc.assert(
    fc.asyncProperty(
      fc.array(arbitraryOperation, { maxLength: 30 }),
      fc.nat(4),
      fc.integer({ min: 1, max: 4 }),
      arbitraryPolicy,
      fc.nat(),
      async (operations, device, host, policy, seed) => {
        const random = createSeededRandom(seed)
        const world = createWorld({ device, host, policy, bounds: { copyDeadlineMs: 20 } })
        const { history, clock, copies } = world
        copies.decide = () => ({
          fate: random.chance(0.1) ? 'failed' : random.chance(0.05) ? 'never' : 'done',
          delayMs: random.integer(8),
        })
        const offers: Promise<void>[] = []
        const restores: Promise<void>[] = []
        const leases: HistoryLease[] = []
        let nextBlock = 100_000
        const load = async (prompt: readonly string[]): Promise<void> => {
          const reservation = history.reserve(keysOf(prompt), 0)
          if (reservation === null) return
          const destinations = Uint32Array.from(
            { length: reservation.blockCount },
            () => nextBlock++,
          )
          const result = await history.restore(reservation.lease, destinations)
          if (result.kind !== 'restored') return
          destinations.forEach((block, index) => {
            const name = prompt[index]!
            expect(copies.content.engine[block]).toEqual([`${name}/0`, `${name}/1`])
          })
        }
        for (const { kind, prompt } of operations) {
          if (kind === 'offer') {
            const blockCount = nextBlock
            const blockIds = Uint32Array.from(prompt, () => nextBlock++)
            prompt.forEach((name, index) => copies.compute(blockCount + index, name))
            // Once the blocks are free, the engine puts other content there.
            const reuse = () => blockIds.forEach((block) => copies.compute(block, 'reused'))
            const ended = history.offer({ keys: keysOf(prompt), blockIds })
            if (ended === null) reuse()
            else offers.push(ended.then(reuse))
          } else if (kind === 'reserve') {
            const reservation = history.reserve(keysOf(prompt), 0)
            if (reservation !== null) leases.push(reservation.lease)
          } else if (kind === 'release' && leases.length > 0) history.release(leases.shift()!)
          else if (kind === 'load') restores.push(load(prompt))
          await clock.advance(random.integer(6))
        }
        await clock.wait(Promise.all(offers), 1_000)
        copies.decide = () => ({ fate: 'done', delayMs: 0 })
        copies.endHanging(random.chance(0.5) ? 'done' : 'failed')
        await clock.advance(100)
        copies.endHanging('done')
        await clock.wait(Promise.all(restores), 10_000)
        leases.forEach((lease) => history.release(lease))
        expect(history.gauges()).toMatchObject({ leasesOpen: 0, slotsQuarantined: 0 })
        // All slots are in use or free: new content can fill both tiers.
        const fill = Array.from({ length: 2 * (device + host) }, (_, index) => `fill ${index}`)
        for (let turn = 0; turn < 2; turn += 1) for (const name of fill) await world.save(name)
        const { deviceBlocks, hostBlocks } = history.gauges()
        expect(deviceBlocks).toBe(device)
        if (policy !== 'write-through') expect(hostBlocks).toBe(host)
        await clock.wait(history.close(), 10_000)
        expect(copies.isClosed).toBe(true)
        expect(copies.conflicts).toEqual([])
      },
    ),
    { numRuns: 200 },
  )
})
