/**
 * Decision 12 lists Xavier's requirements, RT-01 to RT-53, and says of each what became of it. Each has a test that
 * names it in a title, in whatever package looks at it; one that was replaced has a test of what holds instead.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const root = fileURLToPath(new URL('../../..', import.meta.url))
const decision = join(root, 'contributing', 'decisions', '0012-xavier-requirements.md')
const folders = ['connector-xavier', 'kv-history', 'router'].map((name) =>
  join(root, 'packages', name, 'test'),
)
const numbers = Array.from({ length: 53 }, (_, index) => index + 1)

/** `| 01 | kept | … |`; one row may be of several, `11, 12`, or of a range, `25 – 29`. */
const row = /^\| (\d\d(?:(?:, | – )\d\d)*) \| (\w+) \| (.+) \|$/gm

const listed = [...readFileSync(decision, 'utf8').matchAll(row)].flatMap(
  ([, ids = '', status, text = '']) => {
    const [from = 0, to = from] = ids.split(/, | – /).map(Number)
    const isRange = ids.includes(' – ')
    const all = isRange ? numbers.filter((number) => number >= from && number <= to) : null
    return (all ?? ids.split(', ').map(Number)).map((number) => ({ number, status, text }))
  },
)

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
