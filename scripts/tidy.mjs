#!/usr/bin/env node
// House rules that no linter knows, over the files git tracks. Prints one line per finding; exit 1 if any.
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const tracked = execFileSync('git', ['ls-files', '-z'], { cwd: root, encoding: 'utf8' })
  .split('\0')
  .filter(Boolean)

const CODE = /\.(ts|mjs|cc|h)$/
const FILE_LINES_MAX = 300
const FILE_BYTES_MAX = 300_000
// Written in pieces, so that this file doesn't find itself.
const forbidden = [
  [new RegExp(['/wo' + 'rk/', '/ro' + 'ot/', '/ho' + 'me/\\w'].join('|')), 'a path of one machine'],
  [new RegExp('(^|\\W)(TO' + 'DO|FIX' + 'ME|XX' + 'X)(\\W|$)'), 'a note without an issue'],
  [new RegExp('(describe|test|it)\\.on' + 'ly\\('), 'a focused test'],
]

const findings = []
for (const path of tracked) {
  if (/^pnpm-lock\.yaml$|^LICENSE$/.test(path)) continue
  const bytes = readFileSync(join(root, path))
  if (bytes.length > FILE_BYTES_MAX)
    findings.push(`${path}: ${bytes.length} bytes, more than ${FILE_BYTES_MAX}`)
  const text = bytes.toString('utf8')
  const lines = text.split('\n')
  if (CODE.test(path) && lines.length - 1 > FILE_LINES_MAX) {
    findings.push(`${path}: ${lines.length - 1} lines, more than ${FILE_LINES_MAX}`)
  }
  if (/(^|\/)utils?\.(ts|mjs|h|cc)$/.test(path))
    findings.push(`${path}: name the concept, not "utils"`)
  lines.forEach((line, index) => {
    for (const [pattern, what] of forbidden) {
      if (pattern.test(line))
        findings.push(`${path}:${index + 1}: ${what}: ${line.trim().slice(0, 80)}`)
    }
  })
  if (path.endsWith('.md') && !path.startsWith('.changeset/')) {
    const prose = text.replace(/^(```|~~~)[\s\S]*?^\1/gm, '')
    const titles = prose.split('\n').filter((line) => line.startsWith('# ')).length
    if (titles !== 1) findings.push(`${path}: ${titles} titles, a page has one`)
  }
}

for (const finding of findings) process.stderr.write(`tidy: ${finding}\n`)
process.exitCode = findings.length > 0 ? 1 : 0
