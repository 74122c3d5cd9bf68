import { readFileSync } from 'node:fs'
import { loadConnector } from '@kvferry/connector-api'
import { expect, test } from 'vitest'
import { parsePushOptions, push } from '../src/index.ts'

const readme = readFileSync(new URL('../README.md', import.meta.url), 'utf8')

test('the table of options has every option with its default', () => {
  const rows = [...readme.matchAll(/^\| `(\w+)` \| `(\w+)` \|/gm)]
  const documented = Object.fromEntries(rows.map(([, name, value]) => [name, value]))
  const defaults = Object.entries(parsePushOptions({})).map(([name, value]) => [name, `${value}`])
  expect(documented).toEqual(Object.fromEntries(defaults))
})

test('the config word loads the factory', async () => {
  const loaded = await loadConnector('push', () => import('../src/index.ts'))
  expect(loaded).toBe(push)
})
