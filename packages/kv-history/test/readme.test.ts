import { readFileSync } from 'node:fs'
import { historyCounterMeanings, historyPolicyNames } from '@kvferry/connector-api'
import { expect, test, vi } from 'vitest'
import { historyLimits } from '../src/index.ts'

const readme = readFileSync(new URL('../README.md', import.meta.url), 'utf8')

test('the example in the README is the one that runs here', async () => {
  const example = readFileSync(new URL('./examples/first-history.ts', import.meta.url), 'utf8')
  expect(readme).toContain(example.trim())
  const log = vi.spyOn(console, 'log').mockImplementation(() => {})
  await import('./examples/first-history.ts')
  expect(log.mock.calls).toEqual([
    [4, 'blocks,', { kind: 'restored', blockCount: 4, deviceBlockCount: 2 }],
    ['byte 0 of block 11 is', 7],
  ])
  log.mockRestore()
})

test('the table of counters has every counter with its meaning', () => {
  for (const [name, meaning] of Object.entries(historyCounterMeanings)) {
    expect(readme).toContain(`| \`${name}\` | ${meaning} |`)
  }
})

test('the table of limits has their values', () => {
  const { gpuCacheBytesDefault, ...others } = historyLimits
  for (const [name, value] of Object.entries(others)) {
    expect(readme).toContain(`| \`${name}\` | ${value.toLocaleString('en')} |`)
  }
  expect(readme).toContain(`| \`gpuCacheBytes\` | \`${gpuCacheBytesDefault}\` |`)
})

test('every policy is described', () => {
  for (const name of historyPolicyNames) expect(readme).toMatch(new RegExp(`^\\| \`${name}\``, 'm'))
})
