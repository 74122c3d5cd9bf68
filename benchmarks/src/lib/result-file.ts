/**
 * Where results go: a file, written whole or not at all, or stdout for `-`.
 */
import { existsSync, renameSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { UsageError } from '../usage-error.ts'

/** Lists of numbers on one line each: a thousand samples are not a thousand lines. */
const inlineNumbers = (text: string): string =>
  text.replaceAll(/\[\n\s+((?:[-+.\deE]+,?\n\s*)+)\]/g, (_, list: string) => {
    return `[${list.trim().split(/,?\s+/).join(', ')}]`
  })

/** Before the run, not after it. @throws UsageError when the result could not be written there. */
export function assertWritable(flag: 'json' | 'svg' | 'html', target: string): void {
  if (target === '-' && flag === 'html') throw new UsageError('--html -: name a file')
  if (target === '-' || existsSync(dirname(target))) return
  throw new UsageError(`--${flag} ${target}: the directory does not exist`)
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
