/**
 * Where `--json` goes: a file, written whole or not at all, or stdout for `-`.
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
export function assertWritable(target: string): void {
  if (target === '-' || existsSync(dirname(target))) return
  throw new UsageError(`--json ${target}: the directory does not exist`)
}

export function writeResult(
  target: string,
  result: unknown,
  stdout: { write(text: string): unknown },
): void {
  const text = `${inlineNumbers(JSON.stringify(result, null, 2))}\n`
  if (target === '-') {
    stdout.write(text)
    return
  }
  const partial = `${target}.partial`
  writeFileSync(partial, text)
  renameSync(partial, target)
}
