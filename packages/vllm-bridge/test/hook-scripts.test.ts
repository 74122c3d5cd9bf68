/**
 * The golden vectors are what the connector answers today. After an intended change of it, run this once
 * with KVFERRY_UPDATE_GOLDEN=1, and then make the shim's tables agree (python/tests).
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { writeHookScripts } from './fixtures/hook-scripts.ts'
import { writeReturningScripts } from './fixtures/returning-scripts.ts'

const files = {
  pull: new URL('./golden/hook-scripts.jsonl', import.meta.url),
  xavier: new URL('./golden/xavier-scripts.jsonl', import.meta.url),
  returning: new URL('./golden/returning-scripts.jsonl', import.meta.url),
}

interface Script {
  readonly requests: Readonly<Record<string, object>>
  readonly calls: readonly object[]
}

/** One record a line: a script's head, then its requests, then its calls. Readable, also as a difference. */
function toText(scripts: readonly Script[]): string {
  const records = scripts.flatMap(({ calls, requests, ...script }) => [
    { script },
    ...Object.entries(requests).map(([id, request]) => ({ request: id, ...request })),
    ...calls,
  ])
  return records.map((record) => `${JSON.stringify(record)}\n`).join('')
}

function compare(scripts: readonly Script[], file: URL): void {
  if (process.env['KVFERRY_UPDATE_GOLDEN'] === '1') writeFileSync(file, toText(scripts))
  expect(readFileSync(file, 'utf8')).toBe(toText(scripts))
}

test.each(['pull', 'xavier'] as const)(
  '%s: the golden conversations are what it answers',
  async (connector) => {
    const scripts = await writeHookScripts(connector === 'pull' ? 16 : 24, connector)
    compare(scripts, files[connector])
    const finishes = scripts.flatMap(({ calls }) => calls).filter(({ hook }) => hook === 'finish')
    // A generator that stopped producing one kind of answer would check nothing.
    expect(
      finishes.filter((call) => call.hook === 'finish' && call.delayFree).length,
    ).toBeGreaterThan(10)
    const matches = scripts.flatMap(({ calls }) => calls).filter(({ hook }) => hook === 'match')
    expect(
      matches.filter((call) => call.hook === 'match' && call.tokens !== 0).length,
    ).toBeGreaterThan(10)
  },
)

test('prompts that come back: the golden conversations are what xavier answers', async () => {
  const scripts = await writeReturningScripts(15)
  compare(scripts, files.returning)
  const calls = scripts.flatMap((script) => script.calls)
  const matches = calls.flatMap((call) => (call.hook === 'match' ? [call.tokens] : []))
  const counts = [null, 0].map((answer) => matches.filter((tokens) => tokens === answer).length)
  // Asked, computed, restored.
  for (const count of [...counts, matches.filter(Boolean).length]) expect(count).toBeGreaterThan(50)
  const restored = calls.filter((call) => call.hook === 'alloc' && call.external > 0)
  expect(restored.length).toBeGreaterThan(30)
})
