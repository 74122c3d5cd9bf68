/**
 * How the children of `kvferry-bench micro` are talked to: `ready …` first, then one command per line of
 * stdin and one answer per line of stdout, `ok …` or `error …`.
 */
import { createInterface } from 'node:readline'

export type Words = readonly (string | number)[]

const say = (...words: Words) => process.stdout.write(`${words.join(' ')}\n`)

/** Answers until stdin ends. `execute` gets a line's words; what it throws is the answer, too. */
export async function answerCommands(
  hello: string,
  execute: (words: readonly string[]) => Promise<Words>,
): Promise<void> {
  say('ready', hello)
  for await (const line of createInterface({ input: process.stdin })) {
    try {
      say('ok', ...(await execute(line.split(' '))))
    } catch (error) {
      say('error', String(error instanceof Error ? error.message : error).replaceAll('\n', ' '))
    }
  }
}
