import { expect, test } from 'vitest'
import { planSimulation } from '../src/testing/index.ts'

const plans = Array.from({ length: 400 }, (_, index) => planSimulation(index + 1))

test('a seed is one plan', () => {
  for (const seed of [1, 7, 400]) expect(planSimulation(seed)).toEqual(plans[seed - 1])
})

test('one to three engines on each side, in any pairing', () => {
  const sizes = plans.map(({ size }) => `${size.producers.length}:${size.consumers.length}`)
  const pairings = [1, 2, 3].flatMap((p) => [1, 2, 3].map((d) => `${p}:${d}`))
  expect([...new Set(sizes)].toSorted()).toEqual(pairings)
})

test('nothing falls to an engine that there is not, and every engine is there for something', () => {
  const busy = new Set<string>()
  for (const { size, jobs, faults, skew } of plans) {
    const names = new Set([...size.producers, ...size.consumers])
    const meant = [
      ...jobs.flatMap(({ job, repeatAt }) => [job.producer, job.consumer, repeatAt?.consumer]),
      ...faults.flatMap(({ producer, consumer, victim }) => [producer, consumer, victim]),
    ].filter((name) => name !== undefined)
    expect(meant.filter((name) => !names.has(name))).toEqual([])
    for (const name of meant) busy.add(name)
    for (const name of names) expect(skew).toHaveProperty(name)
    for (const { producer, consumer, victim } of faults) {
      expect([producer, consumer]).toContain(victim)
    }
  }
  expect([...busy].toSorted()).toEqual(['d0', 'd1', 'd2', 'p0', 'p1', 'p2'])
})
