/**
 * Compiles the bare loop, the baseline of `kvferry-bench micro`. Plain Node, the system's compiler, no
 * downloads. The output is keyed by a hash of sources, flags and compiler, and appears by rename, so a
 * second call takes milliseconds and nobody runs half a program.
 *
 *   node native/build.mjs        prints the path
 */
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, renameSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const nativeDir = dirname(fileURLToPath(import.meta.url))
const buildDir = join(nativeDir, '..', '.cache')
const flags = ['-std=c++17', '-O2', '-Wall', '-Wextra', '-Wshadow', '-Werror']

function findCompiler() {
  const candidates = process.env['CXX'] ? [process.env['CXX']] : ['g++', 'c++', 'clang++']
  for (const command of candidates) {
    try {
      const version = execFileSync(command, ['--version'], { encoding: 'utf8', stdio: 'pipe' })
      return { command, version }
    } catch {
      // Not there: the next one.
    }
  }
  throw new Error(
    `no C++ compiler for the bare loop: tried ${candidates.join(', ')}; install g++, or name one in CXX`,
  )
}

/**
 * Path of the program; where KVFERRY_BARE_LOOP names one that is built already, that. Throws an Error with the compiler's own words.
 */
export function buildBareLoop() {
  const built = process.env['KVFERRY_BARE_LOOP']
  if (built !== undefined) return built
  const compiler = findCompiler()
  const hash = createHash('sha256').update(compiler.version).update(flags.join(' '))
  for (const file of [
    'bare_loop.cc',
    'cuda_memory.h',
    'monotonic_clock.h',
    'nixl_table.h',
    'region.h',
    'words.h',
  ]) {
    hash.update(readFileSync(join(nativeDir, file)))
  }
  const output = join(buildDir, `bare_loop-${hash.digest('hex').slice(0, 16)}`)
  if (existsSync(output)) return output
  mkdirSync(buildDir, { recursive: true })
  const partial = `${output}.${process.pid}`
  const source = join(nativeDir, 'bare_loop.cc')
  execFileSync(compiler.command, [...flags, source, '-o', partial, '-ldl'], {
    stdio: ['ignore', 'ignore', 'pipe'],
    encoding: 'utf8',
  })
  renameSync(partial, output)
  return output
}

if (process.argv[1] !== undefined && fileURLToPath(import.meta.url) === process.argv[1]) {
  process.stdout.write(`${buildBareLoop()}\n`)
}
