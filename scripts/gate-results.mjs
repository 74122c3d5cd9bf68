// What a gate of `npm test` found: counts, and the titles of what failed or was skipped, read from what its
// programs leave behind. A program that says nothing counts as one failure, whatever its exit code.
import { readFileSync } from 'node:fs'
import { relative } from 'node:path'

/** @typedef {{ passed: number, failed: string[], skipped: string[] }} GateResult */

const tailLines = 5

/** The last lines of an output that say something: where a program that fails writes why. */
function tailOf(output) {
  const lines = output.split('\n').filter((line) => line.trim() !== '')
  return lines.slice(-tailLines).map((line) => `\n    ${line}`)
}

/** A program whose exit code is all it says; the end of its output is the title of its failure. */
export function resultOfCheck(code, output) {
  if (code === 0) return { passed: 1, failed: [], skipped: [] }
  return { passed: 0, failed: [`exit code ${code}${tailOf(output).join('')}`], skipped: [] }
}

/** As many titles as there are failures: one more when only the exit code tells of it. */
function failuresOf({ titles, count = titles.length, code, output }) {
  if (titles.length >= Math.max(count, code === 0 ? 0 : 1)) return titles
  return [...titles, ...resultOfCheck(code || 1, output).failed]
}

/** Of vitest's JSON report in `reportFile`. Titles begin with the test's file, as seen from `root`. */
export function resultOfVitest({ reportFile, root, code, output }) {
  let report
  try {
    report = JSON.parse(readFileSync(reportFile, 'utf8'))
  } catch {
    return resultOfCheck(code || 1, output)
  }
  const failed = []
  const skipped = []
  for (const file of report.testResults) {
    const path = relative(root, file.name)
    const titles = (statuses) =>
      file.assertionResults
        .filter((test) => statuses.includes(test.status))
        .map((test) => test.fullName.trim())
    skipped.push(...titles(['skipped', 'pending', 'todo']))
    const failedHere = titles(['failed'])
    // A file whose set-up failed has no failed test.
    const reason = String(file.message ?? '').split('\n')[0]
    const isBroken = file.status === 'failed' && failedHere.length === 0
    const reasons = isBroken ? [reason] : failedHere
    failed.push(...reasons.map((title) => `${path}: ${title}`))
  }
  return {
    passed: report.numPassedTests,
    failed: failuresOf({ titles: failed, code, output }),
    skipped,
  }
}

/** Of programs that print `FAIL NAME` a failed case, and their counts as one of the last lines. */
function resultOfPrinted(code, output, countsLine) {
  const counts = [...output.matchAll(countsLine)].at(-1)?.groups
  if (!counts) return resultOfCheck(code || 1, output)
  const titles = [...output.matchAll(/^FAIL (.*)$/gm)].map(([, name]) => name)
  const failed = failuresOf({ titles, count: Number(counts.failed), code, output })
  const skipped = Array.from({ length: Number(counts.skipped ?? 0) }, () => 'a check of real vLLM')
  return { passed: Number(counts.passed), failed, skipped }
}

/** The C++ tests. */
export const resultOfNative = (code, output) =>
  resultOfPrinted(code, output, /^(?<passed>\d+) passed, (?<failed>\d+) failed$/gm)

/** Real vLLM. */
export const resultOfVllm = (code, output) =>
  resultOfPrinted(
    code,
    output,
    /^(?<passed>\d+) passed, (?<failed>\d+) failed, (?<skipped>\d+) skipped$/gm,
  )

/** @param {readonly GateResult[]} results */
export const sumOf = (results) => ({
  passed: results.reduce((sum, { passed }) => sum + passed, 0),
  failed: results.flatMap(({ failed }) => failed),
  skipped: results.flatMap(({ skipped }) => skipped),
})

/** How a run ends: what was left out, what failed, and the counts last. */
export function summaryOf({ passed, failed, skipped }) {
  const lines = [
    ...skipped.map((title) => `skipped: ${title}`),
    ...failed.map((title) => `failed: ${title}`),
    `${passed} passed, ${failed.length} failed, ${skipped.length} skipped`,
  ]
  return `${lines.join('\n')}\n`
}
