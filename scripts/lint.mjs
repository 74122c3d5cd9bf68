#!/usr/bin/env node
// Types and lint of the whole repository over one program of the compiler: most of either's time goes to
// finding out types, and what one has found out the other need not. Both are always looked at; exit code 1
// if one has something to say. `npm run typecheck` and `npm run lint` are the same two, each by itself.
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { ESLint } from 'eslint'
import ts from 'typescript'

const root = dirname(dirname(fileURLToPath(import.meta.url)))

function createProgram() {
  const host = { ...ts.sys, onUnRecoverableConfigFileDiagnostic: (problem) => report([problem]) }
  const config = ts.getParsedCommandLineOfConfigFile(join(root, 'tsconfig.json'), {}, host)
  if (config === undefined) process.exit(1)
  const { fileNames, options, errors } = config
  // ESLint's rules look from nodes to their parents.
  const compilerHost = ts.createCompilerHost(options, true)
  return ts.createProgram({
    ...{ rootNames: fileNames, options, host: compilerHost },
    configFileParsingDiagnostics: errors,
  })
}

/** Prints what the compiler says. Answers whether it's nothing. */
function report(problems) {
  const names = {
    getCanonicalFileName: (name) => name,
    getCurrentDirectory: () => root,
    getNewLine: () => '\n',
  }
  process.stderr.write(ts.formatDiagnostics(ts.sortAndDeduplicateDiagnostics(problems), names))
  return problems.length === 0
}

async function lint(program) {
  const eslint = new ESLint({
    cwd: root,
    overrideConfig: {
      files: ['**/*.ts'],
      languageOptions: { parserOptions: { programs: [program], project: null } },
    },
  })
  const results = await eslint.lintFiles(['.'])
  const formatter = await eslint.loadFormatter('stylish')
  process.stderr.write(await formatter.format(results))
  return results.every(({ errorCount, warningCount }) => errorCount + warningCount === 0)
}

const program = createProgram()
// Lint first: it asks for types file by file, in the order in which the compiler would find them out, too.
const isClean = await lint(program)
const isTyped = report(ts.getPreEmitDiagnostics(program))
process.exitCode = isClean && isTyped ? 0 : 1
