/**
 * Where `--json` goes: a file, written whole or not at all, or stdout for `-`.
 */
import { renameSync, writeFileSync } from 'node:fs'

/** Lists of numbers on one line each: a thousand samples are not a thousand lines. */
const inlineNumbers = (text: string): string =>
  text.replaceAll(/\[\n\s+((?:[-+.\deE]+,?\n\s*)+)\]/g, (_, list: string) => {
    return `[${list.trim().split(/,?\s+/).join(', ')}]`
  })

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
