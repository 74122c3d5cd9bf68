/**
 * The requests of the load experiment: 12 one by one, then as many callers as a phase is named after, then
 * cold arrivals while long decodes run in the background; 652 in all, as published. Pure.
 *
 * The published text doesn't say what its requests were, only that they hit the engines' own prefix caches.
 * Here each request of the two closed phases has one of the 12 prefixes of the first phase and an end of its
 * own, so that it hits and still has KV to move. A cold arrival shares nothing with anything.
 */
import type { Random } from '@kvferry/connector-api'
import { createPrompt, type PlannedRequest } from '../compare/schedule.ts'
import type { ExperimentPlan, StepPlan } from '../experiments/experiment-trial.ts'

export const loadPhases = ['init', 'c16', 'c32', 'overlap'] as const
export type LoadStep = (typeof loadPhases)[number]

export interface LoadPlanOptions {
  readonly random: Random
  readonly prefixCount: number
  readonly prefixTokens: number
  /** What a request has after its prefix. */
  readonly ownTokens: number
  /** Of each of the two closed phases. */
  readonly requestCount: number
  readonly outputTokens: number
  readonly backgroundCount: number
  readonly backgroundOutputTokens: number
  readonly coldCount: number
  readonly coldTokens: number
  readonly coldGapMs: number
}

export type RequestKind = 'background' | 'cold' | 'shared'

export interface LoadPlan extends ExperimentPlan<LoadStep> {
  /** By index of the request. */
  readonly kindOf: (index: number) => RequestKind
}

type Shape = Pick<PlannedRequest, 'prompt' | 'outputTokens' | 'atMs'>

export function planLoad(options: LoadPlanOptions): LoadPlan {
  const { random, prefixCount, ownTokens, outputTokens, requestCount } = options
  const kinds: RequestKind[] = []
  const request = (
    kind: RequestKind,
    shape: Shape,
    phase: PlannedRequest['phase'] = 'measured',
  ): PlannedRequest => {
    kinds.push(kind)
    return { ...shape, phase, index: kinds.length - 1, isStream: true }
  }
  const prefixes = Array.from({ length: prefixCount }, () =>
    createPrompt(random, options.prefixTokens),
  )
  const shared = (count: number): Shape[] =>
    Array.from({ length: count }, (_, i) => ({
      prompt: `${prefixes[i % prefixCount]}${createPrompt(random, ownTokens)}`,
      outputTokens,
      atMs: 0,
    }))
  const closed = (kind: LoadStep, concurrency: number, shapes: readonly Shape[]) => ({
    ...{ kind, concurrency, cycle: 0 },
    requests: shapes.map((shape) => request('shared', shape)),
  })
  const [firstShape, ...others] = shared(prefixCount) as [Shape, ...Shape[]]
  const first = request('shared', firstShape, 'first')
  const steps: StepPlan<LoadStep>[] = [
    closed('init', 1, others),
    closed('c16', 16, shared(requestCount)),
    closed('c32', 32, shared(requestCount)),
    { kind: 'overlap', concurrency: null, cycle: 0, ...overlap(options, request) },
  ]
  return { first, steps, kindOf: (index) => kinds[index] ?? 'shared' }
}

function overlap(
  options: LoadPlanOptions,
  request: (kind: RequestKind, shape: Shape) => PlannedRequest,
): Required<Pick<StepPlan<LoadStep>, 'background' | 'requests'>> {
  const { random, backgroundCount, coldCount, coldGapMs } = options
  const prompt = (): string => createPrompt(random, options.coldTokens)
  const background = Array.from({ length: backgroundCount }, () =>
    request('background', {
      prompt: prompt(),
      outputTokens: options.backgroundOutputTokens,
      atMs: 0,
    }),
  )
  const requests = Array.from({ length: coldCount }, (_, i) =>
    request('cold', {
      prompt: prompt(),
      outputTokens: options.outputTokens,
      atMs: i * coldGapMs,
    }),
  )
  return { background, requests }
}
