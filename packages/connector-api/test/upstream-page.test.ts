/**
 * `docs/reference/upstream-tests.md` is made from upstream-tests.ts and the titles of all tests; `vitest -u`
 * writes it anew. A title names numbers as `7: …` or `… (7, 9)`.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { agentClauses } from '../src/conformance/clauses.ts'
import { connectorClauses } from '../src/conformance/connector-clauses.ts'
import { knownDefects, knownPullAccidents, upstreamTests } from './upstream-tests.ts'

const root = fileURLToPath(new URL('../../..', import.meta.url))
const folders = ['connector-api', 'connector-pull', 'connector-push', 'reference-engine'].map(
  (name) => join('packages', name, 'test'),
)

interface NamedTest {
  readonly ids: readonly number[]
  readonly title: string
  /** From the root of the repository. */
  readonly path: string
}

/** Titles as they stand in the source, of tests that run: neither skipped nor to do. */
const titles = /^\s*(?:test|it)(?:\.(?:each|for)\([^]*?\))?\(\s*(['"`])((?:(?!\1)[^\n])+)\1/gm
const numbers = /^(\d+(?:, \d+)*): |\((\d+(?:, \d+)*)(?:; [^)]*)?\)$/

function titlesIn(path: string): string[] {
  const source = readFileSync(join(root, path), 'utf8')
  return [...source.matchAll(titles)].map(([, , title = '']) => title)
}

function testsIn(path: string): NamedTest[] {
  return titlesIn(path).flatMap((title) => {
    const found = numbers.exec(title)
    const ids = (found?.[1] ?? found?.[2] ?? '').split(', ').filter(Boolean).map(Number)
    return ids.length === 0 ? [] : [{ ids, title: title.replace(numbers, '').trim(), path }]
  })
}

const filesIn = (folder: string): string[] =>
  readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.test.ts'))
    .map((name) => join(folder, name))
    .toSorted()

const processes = join('tests', 'e2e', 'test')
const tests = [...folders, processes].flatMap(filesIn).flatMap(testsIn)

const sentences = new Map<string, string>(
  [...connectorClauses, ...agentClauses].map(({ id, sentence }) => [id, sentence]),
)

/** Of one number: tests that name it, clauses, or the reason why there are none. */
function proofsOf({ id, clauses = [], absent }: (typeof upstreamTests)[number]): string[] {
  const named = tests.filter(({ ids }) => ids.includes(id))
  return [
    ...(absent === undefined ? [] : [`none: ${absent}`]),
    ...named.map(({ title, path }) => `[${basename(path, '.test.ts')}](../../${path}): ${title}`),
    ...clauses.map((clause) => `clause ${clause}`),
  ]
}

const rows = upstreamTests.map((entry) => {
  const proofs = proofsOf(entry).map((proof) => proof.replaceAll('|', '\\|'))
  return `| ${entry.id} | ${entry.sentence} | ${proofs.join('<br>')} |`
})

const page = `# Upstream’s tests and ours

What the tests of vLLM’s NIXL connectors (pull and push) look at, numbered, and where the same is looked at here: tests
that name the number in their title, and [clauses](conformance.md) of the suite that every connector passes. The
accidents of vLLM’s push connector, by the names of its audit and issues, are \`connector-push/test/scenarios\`; those of its
pull connector are \`connector-pull/test/scenarios\`, and in tests of the engine, the agent and the processes.

| | upstream | here |
| --- | --- | --- |
${rows.join('\n')}
`

it('every number has a test, a clause, or a reason', () => {
  const without = upstreamTests.filter((entry) => proofsOf(entry).length === 0)
  expect(without.map(({ id }) => id)).toEqual([])
  expect(upstreamTests.map(({ id }) => id)).toEqual(upstreamTests.map((_, index) => index + 1))
})

function namelessIn(files: readonly string[], names: readonly string[]): string[] {
  const words = files.flatMap(titlesIn).join('\n')
  return names.filter((name) => !new RegExp(`(^|[^\\w])${name}\\b`, 'm').test(words))
}

it('every known defect of push has a scenario of its name', () => {
  const scenarios = filesIn(join('packages', 'connector-push', 'test', 'scenarios'))
  expect(namelessIn(scenarios, knownDefects)).toEqual([])
})

it('every known accident of pull has a test of its name', () => {
  const packages = ['connector-pull', 'reference-engine', 'native-nixl']
  const places = [...packages.map((name) => join('packages', name, 'test')), processes]
  expect(namelessIn(places.flatMap(filesIn), knownPullAccidents)).toEqual([])
})

it('titles and entries name only what exists', () => {
  const ids = new Set(upstreamTests.map(({ id }) => id))
  expect(tests.filter((test) => !test.ids.every((id) => ids.has(id)))).toEqual([])
  const clauses = upstreamTests.flatMap((entry) => entry.clauses ?? [])
  expect(clauses.filter((clause) => !sentences.has(clause))).toEqual([])
})

it('the page says what the titles say', async () => {
  await expect(page).toMatchFileSnapshot('../../../docs/reference/upstream-tests.md')
})
