/**
 * As hook-scripts.test.ts, for push: the golden vectors are what the connector answers today. After an
 * intended change of it, run this once with KVFERRY_UPDATE_GOLDEN=1, and then make push_rules.py agree.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { writePushScripts, type PushCall, type PushScript } from './fixtures/push-scripts.ts'

const file = new URL('./golden/push-scripts.jsonl', import.meta.url)

/** One record a line: a script's head, then its requests, then its calls. Readable, also as a difference. */
function toText(scripts: readonly PushScript[]): string {
  const records = scripts.flatMap(({ calls, requests, ...script }) => [
    { script },
    ...Object.entries(requests).map(([id, request]) => ({ request: id, ...request })),
    ...calls,
  ])
  return records.map((record) => `${JSON.stringify(record)}\n`).join('')
}

test('the golden conversations are what the connector answers', async () => {
  const scripts = await writePushScripts(24)
  if (process.env['KVFERRY_UPDATE_GOLDEN'] === '1') writeFileSync(file, toText(scripts))
  expect(readFileSync(file, 'utf8')).toBe(toText(scripts))
  // A generator that stopped producing one kind of answer would check nothing.
  const calls = scripts.flatMap((script) => script.calls)
  const countOf = (matches: (call: PushCall) => boolean): number => calls.filter(matches).length
  expect(countOf((call) => call.hook === 'match' && call.tokens !== 0)).toBeGreaterThan(20)
  expect(countOf((call) => call.hook === 'finish' && call.delayFree)).toBeGreaterThan(20)
  expect(countOf((call) => call.hook === 'finish' && !call.delayFree)).toBeGreaterThan(20)
  expect(countOf((call) => call.hook === 'step' && call.handsOver)).toBeGreaterThan(20)
  expect(countOf((call) => call.hook === 'step' && !call.handsOver)).toBeGreaterThan(20)
  expect(countOf((call) => call.hook === 'step' && call.preempted.length > 0)).toBeGreaterThan(10)
})
