/**
 * The request sequences of the reuse experiments, as published: a stable hot set (125 requests at six
 * cycles), a changing working set (73 at three), and the capacity tier (132). Documents are an identifying
 * prefix, one sentence over and over, and a question. Pure.
 */
import type { PlannedRequest } from '../compare/schedule.ts'
import type { ExperimentPlan, StepPlan } from '../experiments/experiment-trial.ts'

export const workingSets = ['hot', 'changing', 'capacity-tier'] as const
export type WorkingSet = (typeof workingSets)[number]

/**
 * `initial`: seen for the first time. `immediate`: again at once, while the engine's own cache has it.
 * `pressure`: one-shot documents that push it out. `revisit`: again after that. `settling`: a cycle of all
 * these that isn't measured.
 */
export type ReuseStep = 'initial' | 'settling' | 'immediate' | 'pressure' | 'revisit'

export interface ReusePlanOptions {
  readonly workingSet: WorkingSet
  readonly cycles: number
  /** Of the hot set, before the measured ones: while the history takes it in. */
  readonly settlingCycles: number
  readonly concurrency: number
  readonly documentTokens: number
  readonly outputTokens: number
  /** Of the short first request. */
  readonly blockTokens: number
  readonly seed: number
}

export const targetCount = 4
export const pressureCount = 12
const tierDocumentCount = 12

const sentence = 'Water evaporates in sunlight and condenses into clouds. '
const question = 'Explain this process.'

/**
 * Printable ASCII, one byte a token; different names differ in the first block, so no two share a prefix.
 * @throws RangeError when `tokens` has no room for name and question.
 */
export function createDocument(name: string, tokens: number): string {
  const head = `${name}: `
  const bodyLength = tokens - head.length - question.length
  if (bodyLength < 0) throw new RangeError(`a document of ${tokens} tokens has no room for ${name}`)
  const body = sentence.repeat(Math.ceil(bodyLength / sentence.length)).slice(0, bodyLength)
  return head + body + question
}

type Document = readonly [kind: string, number: number]

class Planner {
  readonly #options: ReusePlanOptions
  readonly #steps: StepPlan<ReuseStep>[] = []
  #index = 0

  constructor(options: ReusePlanOptions) {
    this.#options = options
  }

  request(prompt: string, phase: PlannedRequest['phase']): PlannedRequest {
    const { outputTokens } = this.#options
    return { index: this.#index++, phase, atMs: 0, prompt, outputTokens, isStream: true }
  }

  document([kind, number]: Document): string {
    const { seed, documentTokens } = this.#options
    return createDocument(`${number} ${kind} ${seed}`, documentTokens)
  }

  step(kind: ReuseStep, cycle: number, documents: readonly Document[]): void {
    const requests = documents.map((document) => this.request(this.document(document), 'measured'))
    this.#steps.push({ kind, cycle, concurrency: this.#options.concurrency, requests })
  }

  plan(first: PlannedRequest): ExperimentPlan<ReuseStep> {
    return { first, steps: this.#steps }
  }
}

const numbered = (kind: string, from: number, count: number): Document[] =>
  Array.from({ length: count }, (_, i) => [kind, from + i] as const)

const pressureOf = (cycleNumber: number): Document[] =>
  numbered('pressure', cycleNumber * pressureCount, pressureCount)

/** Pressure documents are new in each cycle. */
function cycle(planner: Planner, number: number, targets: readonly Document[]): void {
  planner.step('immediate', number, targets)
  planner.step('pressure', number, pressureOf(number))
  planner.step('revisit', number, targets)
}

/** Numbered downwards from 0, so that their pressure documents are no measured cycle's. */
function settle(planner: Planner, cycles: number, targets: readonly Document[]): void {
  for (let number = 0; number > -cycles; number--) {
    for (const documents of [targets, pressureOf(number), targets])
      planner.step('settling', 0, documents)
  }
}

export function planReuse(options: ReusePlanOptions): ExperimentPlan<ReuseStep> {
  const { workingSet, cycles, settlingCycles, blockTokens } = options
  const planner = new Planner(options)
  const rounds = Array.from({ length: cycles }, (_, i) => i + 1)
  if (workingSet === 'capacity-tier') {
    const [firstDocument, ...others] = numbered('document', 0, tierDocumentCount)
    const first = planner.request(planner.document(firstDocument as Document), 'first')
    planner.step('initial', 0, others)
    for (const round of rounds) {
      planner.step('revisit', round, numbered('document', 0, tierDocumentCount))
    }
    return planner.plan(first)
  }
  const first = planner.request('start up '.repeat(blockTokens).slice(0, blockTokens), 'first')
  if (workingSet === 'hot') {
    const targets = numbered('hot', 0, targetCount)
    planner.step('initial', 0, targets)
    settle(planner, settlingCycles, targets)
  }
  for (const round of rounds) {
    if (workingSet === 'hot') cycle(planner, round, numbered('hot', 0, targetCount))
    else {
      const targets = numbered('target', round * targetCount, targetCount)
      planner.step('initial', round, targets)
      cycle(planner, round, targets)
    }
  }
  return planner.plan(first)
}
