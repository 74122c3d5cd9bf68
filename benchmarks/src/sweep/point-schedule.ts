/**
 * The requests of one point: computed from the seed and the point alone, so that every connector and every
 * server gets the same ones at the same moments, also when a sweep is resumed. Pure.
 */
import { createHash } from 'node:crypto'
import { createSeededRandom } from '@kvferry/connector-api/testing'
import { createPrompt, poissonGapMs, type Phase, type PlannedRequest } from '../compare/schedule.ts'
import { pointKey, type GridPoint } from './grid.ts'

/** Different for each point and iteration, so that no prompt comes twice in a sweep. */
function seedOf(seed: number, point: GridPoint): number {
  const text = `${seed}:${pointKey(point)}:${point.iteration}`
  return createHash('sha256').update(text).digest().readUIntBE(0, 4)
}

/** One lone request (it pays for the handshake), the warm-up, the measured Poisson arrivals. */
export function createPointSchedule(options: {
  readonly seed: number
  readonly point: GridPoint
  readonly requestCount: number
  readonly warmUpCount: number
}): PlannedRequest[] {
  const { point, requestCount, warmUpCount } = options
  const random = createSeededRandom(seedOf(options.seed, point))
  const planned: PlannedRequest[] = []
  const plan = (phase: Phase, count: number, nextGapMs: () => number): void => {
    let atMs = 0
    for (let i = 0; i < count; i++) {
      const prompt = createPrompt(random, point.inputTokens)
      const { outputTokens } = point
      planned.push({ index: planned.length, phase, atMs, prompt, outputTokens, isStream: true })
      atMs += nextGapMs()
    }
  }
  plan('first', 1, () => 0)
  plan('warm-up', warmUpCount, () => 1_000 / point.qps)
  plan('measured', requestCount, () => poissonGapMs(random, point.qps))
  return planned
}
