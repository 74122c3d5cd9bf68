/**
 * What the compiler is called for: the sources of a folder in batches, or one by one, as objects that are keyed by a
 * hash of everything that goes into them (flags, compiler, source, the headers it included last time). Knows no
 * target. Objects appear by rename: whoever links one never sees half of it.
 */
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { basename, join } from 'node:path'
import { batchesOf } from './batches.mjs'

/** A preloaded sanitizer is meant for Node: it would judge the compiler too. */
export const compilerEnv = { ...process.env, LD_PRELOAD: '' }

export const temporary = (path) => `${path}.${process.pid}`

/** What a compiler's dependency file (`-MMD`) says that an object was made from. */
function parseDependencies(text) {
  return text
    .replaceAll('\\\n', ' ')
    .replace(/^[^:]*:/, '')
    .split(/\s+/)
    .filter((path) => path !== '')
}

export const hashOf = (...parts) => {
  const hash = createHash('sha256')
  for (const part of parts) hash.update(part).update('\0')
  return hash.digest('hex')
}

/** Rejects with an Error that has the command's own words. */
export function runCompiler(command, args) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'], env: compilerEnv })
    const chunks = []
    child.stdout.on('data', (chunk) => chunks.push(chunk))
    child.stderr.on('data', (chunk) => chunks.push(chunk))
    child.on('error', reject)
    child.on('close', (code) => {
      const text = Buffer.concat(chunks).toString()
      if (code === 0) resolve(text)
      else reject(new Error(`${command} ${args.join(' ')}\nended with ${code}:\n${text}`))
    })
  })
}

/**
 * Runs `work` over `items`, `width` at a time. Rejects with the first failure once nothing runs any more: what is still being
 * written may be asked for again then.
 */
async function inParallel(items, width, work) {
  const queue = [...items]
  const runner = async () => {
    for (let item = queue.shift(); item !== undefined; item = queue.shift()) await work(item)
  }
  const ends = await Promise.allSettled(Array.from({ length: width }, runner))
  const failed = ends.find(({ status }) => status === 'rejected')
  if (failed !== undefined) throw failed.reason
}

/** Hash of what a unit's object was made from; null when that isn't known, or a file is gone. */
export function keyOf({ file, dependencies, flagsHash }) {
  if (!existsSync(dependencies)) return null
  const inputs = parseDependencies(readFileSync(dependencies, 'utf8'))
  if (!inputs.every((path) => existsSync(path))) return null
  return hashOf(flagsHash, file, ...inputs.map((path) => readFileSync(path)))
}

/** Whether `path` is what `stamp` says was made of the parts with this key. */
export const isCurrent = (path, stamp, key) =>
  key !== null && existsSync(path) && existsSync(stamp) && readFileSync(stamp, 'utf8') === key

/**
 * The units of `files`, which are compiled with the same flags: batches, or with `isEach` every file by itself,
 * which shows whether it includes what it needs. Their objects lie in `folder`.
 */
export function unitsOf({ files, flags, folder, compiler, isEach }) {
  mkdirSync(folder, { recursive: true })
  const flagsHash = hashOf(compiler.command, compiler.version, ...flags)
  return (isEach ? files : batchesOf(files, folder)).map((file) => {
    const stem = join(folder, basename(file))
    const [object, dependencies, stamp] = ['.o', '.d', '.stamp'].map((end) => `${stem}${end}`)
    return { file, flags, flagsHash, object, dependencies, stamp }
  })
}

/** Compiles what isn't current, two at a time. Rejects with an Error that has the compiler's own words. */
export async function compileUnits(units, compiler) {
  const stale = units.filter((unit) => !isCurrent(unit.object, unit.stamp, keyOf(unit)))
  await inParallel(stale, Math.min(2, availableParallelism()), async (unit) => {
    const { file, flags, object, dependencies } = unit
    const outputFlags = ['-MMD', '-MF', temporary(dependencies), '-o', temporary(object)]
    await runCompiler(compiler.command, [...flags, '-c', file, ...outputFlags])
    renameSync(temporary(dependencies), dependencies)
    renameSync(temporary(object), object)
    writeFileSync(unit.stamp, keyOf(unit))
  })
}
