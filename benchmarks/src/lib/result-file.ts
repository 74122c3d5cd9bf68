/**
 * Where results go: a file, written whole or not at all, or stdout for `-`.
 */
import { existsSync, mkdirSync, renameSync, statSync, writeFileSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { UsageError } from '../usage-error.ts'

/** Lists of numbers on one line each: a thousand samples are not a thousand lines. */
const inlineNumbers = (text: string): string =>
  text.replaceAll(/\[\n\s+((?:[-+.\deE]+,?\n\s*)+)\]/g, (_, list: string) => {
    return `[${list.trim().split(/,?\s+/).join(', ')}]`
  })

/** Before the run, not after it. @throws UsageError when the result could not be written there. */
export function assertWritable(flag: 'json' | 'svg' | 'html', target: string): void {
  if (target === '-' && flag === 'html') throw new UsageError('--html -: name a file')
  if (target === '-') return
  if (!existsSync(dirname(target))) {
    throw new UsageError(`--${flag} ${target}: the directory does not exist`)
  }
  if (statSync(target, { throwIfNoEntry: false })?.isDirectory() === true) {
    throw new UsageError(`--${flag} ${target}: that is a directory; name a file`)
  }
}

/**
 * With those above it, one by one: Node's `recursive` never returns where a directory says that it isn't there when asked to
 * hold another, as those of /proc do. @throws UsageError when it can't be made.
 */
export function makeDirectory(flag: 'results-dir' | 'keep-logs', path: string): void {
  const missing: string[] = []
  for (let at = resolve(path); !existsSync(at); at = dirname(at)) missing.unshift(at)
  try {
    for (const directory of missing) mkdirSync(directory)
    if (!statSync(path).isDirectory()) throw new Error('a file has that name')
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    throw new UsageError(`--${flag} ${path}: no directory can be made there: ${reason}`)
  }
}

export function writeResult(
  target: string,
  result: unknown,
  stdout: { write(text: string): unknown },
): void {
  const text = `${inlineNumbers(JSON.stringify(result, null, 2))}\n`
  if (target === '-') stdout.write(text)
  else writeWhole(target, text)
}

/** Under another name first: a reader never sees half a file. */
export function writeWhole(target: string, text: string): void {
  const partial = `${target}.partial`
  writeFileSync(partial, text)
  renameSync(partial, target)
}
