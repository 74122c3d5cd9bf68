import { describe, expect, test } from 'vitest'
import {
  describeCounterExample,
  explore,
  exploreWhole,
  type Model,
  type WholeExploration,
} from '../src/testing/index.ts'

interface Locks {
  readonly held: readonly (string | null)[]
  readonly progress: readonly number[]
}

/** Two clients that take two locks, in this order each. */
function twoLocks(orders: readonly (readonly [number, number])[]): Model<Locks> {
  const names = ['left', 'right']
  return {
    initial: { held: [null, null], progress: [0, 0] },
    *steps({ held, progress }) {
      for (const [client, order] of orders.entries()) {
        const at = progress[client]!
        const wanted = order[at]
        const advanced = progress.with(client, at + 1)
        if (wanted !== undefined && held[wanted] === null) {
          const name = `${client} takes ${names[wanted]}`
          yield { name, take: () => ({ held: held.with(wanted, `${client}`), progress: advanced }) }
        } else if (at === 2) {
          const freed = held.map((owner) => (owner === `${client}` ? null : owner))
          yield { name: `${client} is done`, take: () => ({ held: freed, progress: advanced }) }
        }
      }
    },
    key: (state) => JSON.stringify(state),
    judge: () => null,
    judgeEnd: ({ progress }) => (progress.every((at) => at === 3) ? null : 'somebody waits'),
  }
}

test('every state of a sound model is seen, and nothing is found', () => {
  const order = [0, 1] as const
  expect(explore(twoLocks([order, order]), { stateCountMax: 1_000 })).toMatchObject({
    isComplete: true,
    counterExample: null,
    endCount: 1,
    depth: 6,
  })
})

test('a deadlock is found, by a shortest way', () => {
  const { counterExample } = explore(
    twoLocks([
      [0, 1],
      [1, 0],
    ]),
    { stateCountMax: 1_000 },
  )
  expect(describeCounterExample(counterExample!)).toBe(
    '  1  0 takes left\n  2  1 takes right\nsomebody waits',
  )
})

test('what a step throws is found, and so is a bad state', () => {
  const model = twoLocks([[0, 1]])
  const throwing = { ...model, steps: () => [{ name: 'x', take: () => fail() }] }
  expect(explore(throwing, { stateCountMax: 10 }).counterExample).toEqual({
    problem: 'it throws: no',
    steps: ['x'],
  })
  const strict = { ...model, judge: ({ held }: Locks) => (held[1] === null ? null : 'bad') }
  expect(explore(strict, { stateCountMax: 10 }).counterExample?.steps).toHaveLength(2)
})

test('a bound that is too small is told', () => {
  const order = [0, 1] as const
  const { isComplete } = explore(twoLocks([order, order]), { stateCountMax: 3 })
  expect(isComplete).toBe(false)
})

describe('a whole exploration', () => {
  const inOrder = twoLocks([
    [0, 1],
    [0, 1],
  ])
  /** All that there is of it. */
  const { stateCount, depth } = explore(inOrder, { stateCountMax: 1_000 })
  const printed: string[] = []
  const demands: WholeExploration = {
    ...{ name: 'locks', stateCountMax: stateCount, stateCountMin: stateCount, depthMin: depth },
    print: (line) => printed.push(line),
  }

  test('says its size, and answers what it found', () => {
    printed.length = 0
    expect(exploreWhole(inOrder, demands)).toEqual(explore(inOrder, { stateCountMax: 1_000 }))
    expect(printed).toEqual([`locks: ${stateCount} states, ${depth} steps deep, 1 ends`])
  })

  test('is as large as its page says, with commas in thousands', () => {
    const row = `| locks | x | ${stateCount} | ${depth} |`
    expect(exploreWhole(inOrder, { ...demands, page: `a\n${row}\nb` }).stateCount).toBe(stateCount)
  })

  const inAnyOrder = twoLocks([
    [0, 1],
    [1, 0],
  ])
  test.each<[string, Model<Locks>, Partial<WholeExploration>, string]>([
    ['breaks a rule', inAnyOrder, {}, 'a rule is broken\n  1  0 takes left\n  2  1 takes right\n'],
    ['is larger than its bound', inOrder, { stateCountMax: stateCount - 1 }, 'not seen whole'],
    ['has too few states', inOrder, { stateCountMin: stateCount + 1 }, 'states, fewer than'],
    ['is not deep enough', inOrder, { depthMin: depth + 1 }, 'steps deep, fewer than'],
    ['no page tells of', inOrder, { page: '| keys | 1 | 2 |' }, 'the page has no row of it'],
    ['a page tells wrongly of', inOrder, { page: '| locks | 1 | 2 |' }, 'the page says | locks |'],
  ])('refuses a model that %s', (_, model, change, problem) => {
    printed.length = 0
    expect(() => exploreWhole(model, { ...demands, ...change })).toThrow(problem)
    expect(printed).toHaveLength(1)
  })
})

function fail(): never {
  throw new Error('no')
}
