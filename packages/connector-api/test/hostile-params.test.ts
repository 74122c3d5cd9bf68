/** The sweep of hostile params: what it counts, and each way in which it refuses a parser. */
import { expect, test } from 'vitest'
import type { KvTransferParams } from '../src/index.ts'
import { sweepHostileParams, type HostileParams } from '../src/testing/index.ts'

type Answer =
  { readonly kind: 'consume'; readonly port: unknown } | { readonly kind: 'malformed' | 'none' }

const isPort = (port: unknown): boolean =>
  Number.isInteger(port) && Number(port) >= 1 && Number(port) <= 65_535

const answer = ({ do_remote_prefill: flag, remote_port: port }: KvTransferParams): Answer => {
  if (flag !== true) return { kind: 'none' }
  return isPort(port) ? { kind: 'consume', port } : { kind: 'malformed' }
}

const sweep: HostileParams<Answer> = {
  genuine: { do_remote_prefill: true, remote_port: 5_600, remote_host: '127.0.0.1' },
  ...{ seed: 7, count: 5_000, parse: answer, isSound: ({ port }) => isPort(port) },
}

test('a parser that knows its bounds passes, and what there was of each kind is counted', () => {
  const kinds = sweepHostileParams(sweep)
  expect([...kinds.keys()].sort()).toEqual(['consume', 'malformed', 'none'])
  expect(kinds).toEqual(sweepHostileParams(sweep))
  expect(kinds).not.toEqual(sweepHostileParams({ ...sweep, seed: 8 }))
})

const takesAll: HostileParams<Answer>['parse'] = ({ remote_port: port }) => ({
  kind: 'consume',
  port,
})

test.each<[string, Partial<HostileParams<Answer>>, string]>([
  ['lets something through', { parse: takesAll }, 'out of bounds: {'],
  [
    'throws',
    {
      parse(params) {
        if (!isPort(params['remote_port'])) throw new TypeError('a port')
        return answer(params)
      },
    },
    'it throws: {',
  ],
  ['takes nothing', { parse: () => ({ kind: 'malformed' }) }, '0 are consume, fewer'],
  ['refuses nothing', { parse: takesAll, isSound: () => true }, '0 are malformed, fewer than 50'],
])('a parser that %s is refused', (_, change, problem) => {
  const { stackTraceLimit } = Error
  expect(() => sweepHostileParams({ ...sweep, ...change })).toThrow(problem)
  expect(Error.stackTraceLimit).toBe(stackTraceLimit)
})
