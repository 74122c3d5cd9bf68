/**
 * The simulation as vitest tests, some seeds each. `npm run sim` sets the environment to look at other or
 * more seeds; without it the same ones run everywhere.
 */
import { describe, expect, test } from 'vitest'
import type { SimulationTarget } from '../testing/simulation/run-simulation.ts'
import { verifySeed } from '../testing/simulation/verify-seed.ts'

const seedsPerTest = 50
const testTimeoutMs = 300_000

export interface ConnectorSimulation extends SimulationTarget {
  /** Seeds 1 … `seedCount`. */
  readonly seedCount: number
  /** Endings of loads that the seeds must reach, or they test too little. */
  readonly endings: readonly string[]
}

/** Declares the simulation of one connector. Call it at the top level of a test file. */
export function runConnectorSimulation(name: string, simulation: ConnectorSimulation): void {
  const first = Number(process.env['KVFERRY_SIM_FIRST'] ?? 1)
  const count = Number(process.env['KVFERRY_SIM_SEEDS'] ?? simulation.seedCount)
  const reached = new Set<string>()
  describe(`simulation: ${name}`, () => {
    for (let start = first; start < first + count; start += seedsPerTest) {
      const end = Math.min(first + count, start + seedsPerTest)
      test(`seeds ${start} … ${end - 1} break no rule`, { timeout: testTimeoutMs }, async () => {
        for (let seed = start; seed < end; seed += 1) {
          const { failure, endings } = await verifySeed(name, simulation, seed)
          if (failure !== null) expect.fail(failure)
          for (const ending of endings) reached.add(ending)
        }
      })
    }
    test.skipIf(count < simulation.seedCount)('they reach every ending', () => {
      for (const ending of simulation.endings) expect(reached).toContain(ending)
    })
  })
}
