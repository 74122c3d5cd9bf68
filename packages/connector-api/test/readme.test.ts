import { readFileSync } from 'node:fs'
import { expect, test, vi } from 'vitest'
import {
  agentClauses,
  agentGroups,
  connectorClauses,
  connectorGroups,
} from '@kvferry/connector-api/conformance'
import { limits } from '@kvferry/connector-api'

const readme = readFileSync(new URL('../README.md', import.meta.url), 'utf8')

test('the example in the README is the one that runs here', async () => {
  const example = readFileSync(new URL('./examples/first-transfer.ts', import.meta.url), 'utf8')
  expect(readme).toContain(example.trim())
  const log = vi.spyOn(console, 'log').mockImplementation(() => {})
  await import('./examples/first-transfer.ts')
  expect(log.mock.calls).toEqual([['byte 0 of block 9 is', 7]])
  log.mockRestore()
})

test.each([
  ['agents', agentGroups, agentClauses],
  ['connectors', connectorGroups, connectorClauses],
])('the README counts the clauses for %s', (_, groups, clauses) => {
  for (const [group, title] of Object.entries(groups)) {
    const count = clauses.filter(({ id }) => id.startsWith(`${group}.`)).length
    expect(readme).toContain(`| ${group} | ${title} | ${count} |`)
  }
})

test('limits that the README names exist with these values', () => {
  const rows = [...readme.matchAll(/^\| `(\w+)` \| ([\d,.]+)/gm)]
  expect(rows.length).toBeGreaterThan(5)
  for (const [, name, value] of rows) {
    expect(limits[name as keyof typeof limits], name).toBe(Number(value!.replaceAll(',', '')))
  }
})

test('the smallest connector of the how-to page is the one that tests begin with', () => {
  const page = new URL('../../../docs/how-to/write-a-connector.md', import.meta.url)
  const example = new URL('./examples/smallest-connector.ts', import.meta.url)
  expect(readFileSync(page, 'utf8')).toContain(readFileSync(example, 'utf8').trim())
})
