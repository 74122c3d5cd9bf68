/**
 * Decision 12 lists Xavier's requirements, RT-01 to RT-53, and says of each what became of it. Each has a test that
 * names it in a title, in whatever package looks at it; one that was replaced has a test of what holds instead.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { historyCounterNames } from '@kvferry/connector-api'
import { expect, test } from 'vitest'
import { createCounters } from '../src/xavier-counters.ts'

const root = fileURLToPath(new URL('../../..', import.meta.url))
const decision = readFileSync(
  join(root, 'contributing', 'decisions', '0012-xavier-requirements.md'),
  'utf8',
)
const folders = ['connector-xavier', 'kv-history', 'router'].map((name) =>
  join(root, 'packages', name, 'test'),
)
const numbers = Array.from({ length: 53 }, (_, index) => index + 1)

/** `| 01 | kept | … |`; one row may be of several, `11, 12`, or of a range, `25 – 29`. */
const row = /^\| (\d\d(?:(?:, | – )\d\d)*) \| (\w+) \| (.+) \|$/gm

const listed = [...decision.matchAll(row)].flatMap(([, ids = '', status, text = '']) => {
  const [from = 0, to = from] = ids.split(/, | – /).map(Number)
  const isRange = ids.includes(' – ')
  const all = isRange ? numbers.filter((number) => number >= from && number <= to) : null
  return (all ?? ids.split(', ').map(Number)).map((number) => ({ number, status, text }))
})

/** What stands within quotes, so in titles and their tables: a comment names, but doesn't look. */
function namedIn(source: string): number[] {
  return source
    .split('\n')
    .filter((line) => !/^\s*(\/\/|\/?\*)/.test(line))
    .flatMap((line) => [...(/['"`].*/.exec(line)?.[0] ?? '').matchAll(/\bRT-(\d\d)\b/g)])
    .map(([, number]) => Number(number))
}

const named = new Set(
  [...folders, join(root, 'tests', 'e2e', 'test')].flatMap((folder) =>
    readdirSync(folder, { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.test.ts') && name !== 'requirements.test.ts')
      .flatMap((name) => namedIn(readFileSync(join(folder, name), 'utf8'))),
  ),
)

test('each requirement is listed once, as kept, restated or replaced', () => {
  expect(listed.map(({ number }) => number)).toEqual(numbers)
  for (const { number, status } of listed) {
    expect(['kept', 'restated', 'replaced'], `RT-${number}`).toContain(status)
  }
})

test('each requirement has a test of its name, and no other is named', () => {
  expect(numbers.filter((number) => !named.has(number))).toEqual([])
  expect([...named].filter((number) => !numbers.includes(number))).toEqual([])
})

/** `| P1 – P4 | …`, `| D1, D14 | …`. */
function rowsOf(cell: string): string[] {
  return cell.split(', ').flatMap((part) => {
    const [first = '', last = first] = part.split(' – ')
    const [from, to] = [first, last].map((name) => Number(name.slice(1))) as [number, number]
    return Array.from({ length: to - from + 1 }, (_, index) => `${first[0]}${from + index}`)
  })
}

test('each row of the four tables of the lifecycle is found once', () => {
  const cells = [...decision.matchAll(/^\| ([PDGH]\d+(?:(?:, | – )[PDGH]\d+)*) \|/gm)]
  const rows = cells.flatMap(([, cell = '']) => rowsOf(cell))
  const wanted = { P: [1, 19], D: [0, 14], G: [0, 10], H: [1, 10] } as const
  const all = Object.entries(wanted).flatMap(([table, [from, to]]) =>
    rowsOf(`${table}${from} – ${table}${to}`),
  )
  expect(rows.toSorted()).toEqual(all.toSorted())
})

/** Every counter of Xavier's, as its reference lists them. */
const xaviers = [
  ...['direct_registered', 'direct_finished', 'direct_expired', 'index_uploads', 'load_calls'],
  ...['load_requests', 'gpu_batches', 'cpu_batches', 'wire_bytes', 'useful_bytes'],
  ...['history_saved_blocks', 'history_save_chunks', 'history_skipped_requests'],
  ...['history_failures', 'history_admission_rejected_blocks', 'history_admission_reused_blocks'],
  ...['history_capacity_limited_blocks', 'history_deadline_dropped_blocks'],
  ...['history_closing_dropped_blocks', 'history_hit_blocks', 'history_gpu_hit_blocks'],
  ...['history_cpu_hit_blocks', 'history_loaded_requests', 'demotions', 'gpu_hits', 'cpu_hits'],
  ...['skipped', 'gpu_blocks', 'cpu_blocks', 'gpu_capacity', 'cpu_capacity', 'gpu_reserved_bytes'],
]
const agents = ['bytesMoved', 'slabsMoved']
const gauges = ['Blocks', 'BlockCapacity', 'BytesReserved'].flatMap((what) =>
  ['Device', 'Host'].map((tier) => `history${tier}${what}`),
)

test('each of Xavier’s counters is found once, and those of ours that are named exist', () => {
  const [, page = ''] = decision.split('### The counters')
  const names = (cell = ''): string[] => [...cell.matchAll(/`(\w+)`/g)].map(([, name = '']) => name)
  const rows = [...page.matchAll(/^\| (`.+?) \| (.+) \|$/gm)]
  expect(rows.flatMap(([, theirs]) => names(theirs)).toSorted()).toEqual(xaviers.toSorted())
  const ours = rows.flatMap(([, , cell]) => names(cell))
  const known = [...Object.keys(createCounters().snapshot()), ...historyCounterNames]
  for (const name of ours) expect([...known, ...agents, ...gauges]).toContain(name)
})
