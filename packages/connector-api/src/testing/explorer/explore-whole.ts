/**
 * An exploration as a test wants it: sound, seen whole, and large enough that the model did not get stuck. For tests
 * of any runner: what is not so is thrown.
 */
import { describeCounterExample, explore, type Exploration, type Model } from './explore.ts'

export interface WholeExploration {
  /** Of the scope, in the line that is printed and in what is thrown. */
  readonly name: string
  /** States that are looked at before it gives up. */
  readonly stateCountMax: number
  /** A model that gets stuck at once breaks no rule either, so no fewer states … */
  readonly stateCountMin: number
  /** … and no shorter a way to the last of them. Default 0. */
  readonly depthMin?: number
  /** Markdown in which a row of a table begins with the name and ends with the number of states and the depth. */
  readonly page?: string
  /** Where the line with its size goes. Default `console.info`. */
  readonly print?: (line: string) => void
}

/**
 * Explores all of `model`, prints how much that was, and answers it.
 * @throws Error with the counter-example where a rule is broken, or when it was not seen whole, has fewer states or
 *   ends less deep than demanded, or the page says something else.
 */
export function exploreWhole<State>(
  model: Model<State>,
  {
    name,
    stateCountMax,
    stateCountMin,
    depthMin = 0,
    page,
    print = console.info,
  }: WholeExploration,
): Exploration {
  const found = explore(model, { stateCountMax })
  const { stateCount, depth, endCount, isComplete, counterExample } = found
  print(`${name}: ${stateCount} states, ${depth} steps deep, ${endCount} ends`)
  const refuse = (problem: string): never => {
    throw new Error(`${name}: ${problem}`)
  }
  if (counterExample !== null) refuse(`a rule is broken\n${describeCounterExample(counterExample)}`)
  if (!isComplete) refuse(`not seen whole, there are more than ${stateCountMax} states`)
  if (stateCount < stateCountMin) refuse(`${stateCount} states, fewer than ${stateCountMin}`)
  if (depth < depthMin) refuse(`${depth} steps deep, fewer than ${depthMin}`)
  if (page !== undefined) {
    const figures = `| ${stateCount.toLocaleString('en-US')} | ${depth} |`
    const row = page.split('\n').find((line) => line.startsWith(`| ${name} |`))
    if (row === undefined) refuse(`the page has no row of it, which ends ${figures}`)
    else if (!row.endsWith(figures)) refuse(`the page says ${row}, and not ${figures}`)
  }
  return found
}
