import { describe, expect, test } from 'vitest'
import { Simulation } from './fixtures/simulation.ts'

/** Set to look for more, or to repeat one: PULL_SIM_SEEDS=1000, PULL_SIM_FIRST=4711. */
const first = Number(process.env['PULL_SIM_FIRST'] ?? 1)
const count = Number(process.env['PULL_SIM_SEEDS'] ?? 25)
const seeds = Array.from({ length: count }, (_, index) => first + index)

describe('under load and faults', () => {
  test.each(seeds)(
    'seed %i: right bytes or a typed failure, one report each, nothing leaks',
    async (seed) => {
      const simulation = new Simulation(seed)
      await simulation.run(60)
      const living = [...simulation.engines.values()]

      for (const { engine, request, isRight } of simulation.loads) {
        // S2: whoever was told "loaded" has the prompt's bytes.
        if (isRight !== null) expect(await isRight, request.view.requestId).toBe(true)
        // V1: once faults have stopped, every request of a living engine has come to its end.
        if (!engine.isHalted) expect(request.outcome, request.view.requestId).toBe('freed')
      }
      for (const engine of living) {
        // V2, S3: every lease is over and every block is back.
        expect(engine.free.length, engine.incarnation).toBe(64)
        expect(new Set(engine.free).size).toBe(64)
        expect(engine.scheduler.hasPendingBlockFrees()).toBe(false)
        const reports = engine.outputs.flatMap(({ sent, received }) => [
          ...sent.map((id) => `sent ${id}`),
          ...received.map((id) => `received ${id}`),
        ])
        expect(new Set(reports).size).toBe(reports.length)
        for (const { received, failed } of engine.outputs) {
          for (const { requestId } of failed) expect(received).toContain(requestId)
        }
      }
    },
  )

  test('the seeds reach every ending', async () => {
    const endings = new Set<string>()
    for (const seed of seeds.slice(0, 12)) {
      const simulation = new Simulation(seed)
      await simulation.run(60)
      for (const { request, isRight } of simulation.loads) {
        endings.add(isRight === null ? String(request.errorCode) : 'loaded')
      }
    }
    for (const ending of [
      'loaded',
      'ERR_KV_TRANSFER_FAILED',
      'ERR_KV_PEER_UNAVAILABLE',
      'ERR_KV_LEASE_EXPIRED',
      'ERR_KV_WRONG_EPOCH',
      'ERR_KV_DEADLINE',
    ]) {
      expect(endings).toContain(ending)
    }
  })

  test('the same seed gives the same run', async () => {
    const traces = []
    for (let run = 0; run < 2; run++) {
      const simulation = new Simulation(seeds[0]!)
      await simulation.run(60)
      traces.push(simulation.trace)
    }
    expect(traces[0]).toEqual(traces[1])
  })
})
