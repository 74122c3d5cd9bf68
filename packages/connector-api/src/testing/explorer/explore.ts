/**
 * Looks at every state that a small model can reach, in whatever order its steps may happen, breadth first:
 * so the first counter-example is a shortest one. The model runs the shipped step functions; this knows
 * nothing of any protocol. States are told apart by a 64-bit hash of their keys.
 */
export interface ModelStep<State> {
  /** A line of a transcript. */
  readonly name: string
  /** The state after it. What it throws is a finding. */
  readonly take: () => State
}

export interface Model<State> {
  readonly initial: State
  /** Everything that may happen next. None: the end of a run. */
  steps(state: State): Iterable<ModelStep<State>>
  /** Two states with one key behave alike. */
  key(state: State): string
  /** What is wrong with it, or null. */
  judge(state: State): string | null
  /** What is wrong when nothing more can happen, or null. */
  judgeEnd(state: State): string | null
}

export interface CounterExample {
  readonly problem: string
  /** From the initial state. */
  readonly steps: readonly string[]
}

export interface Exploration {
  readonly stateCount: number
  readonly stepCount: number
  /** Of the longest run without a state that was seen before. */
  readonly depth: number
  /** States in which nothing more can happen. */
  readonly endCount: number
  /** False when a bound stopped it. */
  readonly isComplete: boolean
  readonly counterExample: CounterExample | null
}

interface Visited<State> {
  readonly state: State
  /** Into the lists of parents and names. */
  readonly index: number
}

/** Two hashes of 32 bits as one exact number of 53: fit to tell some million states apart. */
function hash(text: string): number {
  let a = 0x9e3779b9
  let b = 0x85ebca6b
  for (let index = 0; index < text.length; index += 1) {
    const code = text.charCodeAt(index)
    a = Math.imul(a ^ code, 0x01000193)
    b = Math.imul(b ^ code, 0x5bd1e995) ^ (b >>> 15)
  }
  a ^= a >>> 16
  b ^= b >>> 13
  return (a >>> 0) * 2 ** 21 + (b >>> 11)
}

/** Stops at the first problem, when every state was seen, or at `stateCountMax`. */
export function explore<State>(
  model: Model<State>,
  { stateCountMax }: { readonly stateCountMax: number },
): Exploration {
  const seen = new Set<number>([hash(model.key(model.initial))])
  // The frontier's states are dropped once looked at; what is kept of them is how they were reached.
  const parents: number[] = [-1]
  const names: string[] = ['']
  let frontier: Visited<State>[] = [{ state: model.initial, index: 0 }]
  let stepCount = 0
  let endCount = 0
  let depth = 0

  const pathTo = (index: number, last: readonly string[] = []): string[] => {
    const path = [...last]
    for (let at = index; at > 0; at = parents[at]!) path.unshift(names[at]!)
    return path
  }
  const result = (isComplete: boolean, counterExample: CounterExample | null): Exploration => ({
    stateCount: seen.size,
    stepCount,
    depth,
    endCount,
    isComplete,
    counterExample,
  })

  const first = model.judge(model.initial)
  if (first !== null) return result(false, { problem: first, steps: [] })
  while (frontier.length > 0) {
    const next: Visited<State>[] = []
    for (const { state, index } of frontier) {
      let isEnd = true
      for (const { name, take } of model.steps(state)) {
        isEnd = false
        stepCount += 1
        let after: State
        try {
          after = take()
        } catch (error) {
          const problem = `it throws: ${(error as Error).message}`
          return result(false, { problem, steps: pathTo(index, [name]) })
        }
        const identity = hash(model.key(after))
        if (seen.has(identity)) continue
        const problem = model.judge(after)
        if (problem !== null) return result(false, { problem, steps: pathTo(index, [name]) })
        if (seen.size >= stateCountMax) return result(false, null)
        seen.add(identity)
        parents.push(index)
        names.push(name)
        next.push({ state: after, index: parents.length - 1 })
      }
      if (!isEnd) continue
      endCount += 1
      const problem = model.judgeEnd(state)
      if (problem !== null) return result(false, { problem, steps: pathTo(index) })
    }
    if (next.length > 0) depth += 1
    frontier = next
  }
  return result(true, null)
}

/** A counter-example as text, to be read from top to bottom. */
export const describeCounterExample = ({ problem, steps }: CounterExample): string =>
  [...steps.map((step, index) => `${String(index + 1).padStart(3)}  ${step}`), problem].join('\n')
