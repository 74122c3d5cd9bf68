// How `npm test` reads what its gates say: nothing that failed may go without a name, or uncounted.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import {
  resultOfCheck,
  resultOfNative,
  resultOfVitest,
  resultOfVllm,
  sumOf,
  summaryOf,
} from './gate-results.mjs'

const assertion = (fullName, status) => ({ fullName, status })

/** What vitest's report of these files gives. */
function ofReport(testResults, { code = 1, output = '' } = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'kvferry-scripts-'))
  try {
    const reportFile = join(folder, 'report.json')
    const numPassedTests = testResults
      .flatMap((file) => file.assertionResults)
      .filter(({ status }) => status === 'passed').length
    writeFileSync(reportFile, JSON.stringify({ numPassedTests, testResults }))
    return resultOfVitest({ reportFile, root: '/repo', code, output })
  } finally {
    rmSync(folder, { recursive: true })
  }
}

test('a check: one test; the end of its output says why it failed', () => {
  assert.deepEqual(resultOfCheck(0, 'fine'), { passed: 1, failed: [], skipped: [] })
  const output = `${Array.from({ length: 9 }, (_, line) => `line ${line}`).join('\n')}\n\n`
  const { passed, failed } = resultOfCheck(2, output)
  assert.equal(passed, 0)
  assert.deepEqual(failed[0].split('\n'), [
    'exit code 2',
    ...['    line 4', '    line 5', '    line 6', '    line 7', '    line 8'],
  ])
})

test('vitest: titles of failed and skipped tests, with their files', () => {
  const file = {
    name: '/repo/packages/a/test/a.test.ts',
    status: 'failed',
    message: '',
    assertionResults: [
      assertion('works', 'passed'),
      assertion('breaks', 'failed'),
      assertion('rests', 'skipped'),
    ],
  }
  assert.deepEqual(ofReport([file]), {
    passed: 1,
    failed: ['packages/a/test/a.test.ts: breaks'],
    skipped: ['rests'],
  })
})

test('vitest: a file that could not be run, and an error beside the tests, are failures', () => {
  const broken = { name: '/repo/b.test.ts', status: 'failed', assertionResults: [] }
  assert.deepEqual(ofReport([{ ...broken, message: 'no such module\n at x' }]).failed, [
    'b.test.ts: no such module',
  ])
  const fine = { name: '/repo/c.test.ts', status: 'passed', assertionResults: [] }
  assert.deepEqual(ofReport([fine], { code: 0 }).failed, [])
  assert.deepEqual(ofReport([fine], { output: 'Unhandled' }).failed, ['exit code 1\n    Unhandled'])
})

test('vitest without a report is a failure, whatever its exit code', () => {
  for (const code of [0, 1]) {
    const reportFile = '/no/such/report.json'
    const result = resultOfVitest({ reportFile, root: '/repo', code, output: 'killed' })
    assert.deepEqual(result, { passed: 0, failed: ['exit code 1\n    killed'], skipped: [] })
  }
})

test('C++: names of failed cases; a crash before the counts, or after them', () => {
  const output = 'ok   a\n    x.cc:3: y\nFAIL b: c\nok   d\n2 passed, 1 failed\n'
  assert.deepEqual(resultOfNative(1, output), { passed: 2, failed: ['b: c'], skipped: [] })
  assert.equal(resultOfNative(0, 'ok   a\n').failed.length, 1)
  assert.equal(resultOfNative(1, 'ok   a\n1 passed, 0 failed\nleak').failed.length, 1)
})

test('vLLM: names of failed checks, as many as were counted', () => {
  const output = 'ok   a (1.0 s)\nFAIL b\nTraceback\n1 passed, 2 failed, 1 skipped\n'
  const { passed, failed, skipped } = resultOfVllm(1, output)
  assert.deepEqual([passed, failed.length, failed[0], skipped.length], [1, 2, 'b', 1])
  assert.equal(resultOfVllm(0, '').failed.length, 1)
})

test('the end of a run: skips, then failures, the counts last', () => {
  const sum = sumOf([
    { passed: 3, failed: ['unit: a'], skipped: ['s'] },
    { passed: 1, failed: ['tidy: exit code 1\n    b'], skipped: [] },
  ])
  const expected = 'skipped: s\nfailed: unit: a\nfailed: tidy: exit code 1\n    b\n'
  assert.equal(summaryOf(sum), `${expected}4 passed, 2 failed, 1 skipped\n`)
})
