/**
 * A trace of conversations from a seed, in the shape of the published production trace: lengths of prompts,
 * how many blocks come only once, how long it takes until a block comes again. For use without that trace;
 * its constants were fitted to it, and a test holds the result against its figures.
 *
 * Every prompt begins with one block that all share. A new conversation's prompt is of any length; a further
 * turn begins with the whole blocks of an earlier turn and adds its own.
 */
import { createSeededRandom, type SeededRandom } from '@kvferry/connector-api/testing'
import { traceBlockTokens, type TraceRequest } from './trace-request.ts'

/** Mean and spread of a logarithm; bounds of the value itself. */
interface LogNormal {
  readonly mean: number
  readonly deviation: number
  readonly min: number
  readonly max: number
}

const shape = {
  /** Requests arrive in batches, as in the published trace, which has one timestamp for each. */
  batchIntervalMs: 3_000,
  requestsPerBatch: 10.2,
  /** Wish to continue an earlier conversation; where none is old enough, a new one begins. */
  continuationShare: 0.35,
  /** New conversations that end with their first answer. */
  singleTurnShare: 0.66,
  promptTokens: { mean: 8.47, deviation: 1.27, min: 891, max: 126_195 },
  addedTokens: { mean: 6.72, deviation: 1.6, min: 16, max: 95_000 },
  answerTokens: { mean: 5.34, deviation: 1.36, min: 1, max: 2_000 },
  /** From one turn to the next: its median is 132 s, its 90th percentile 531 s. */
  pauseMs: { mean: Math.log(138_000), deviation: 1.25, min: 3_000, max: 3_500_000 },
} as const satisfies Record<string, number | LogNormal>

/** A turn that a later one may continue, once. */
interface Turn {
  readonly timestampMs: number
  readonly blockIds: Uint32Array
  readonly inputLength: number
  isContinued: boolean
}

export function createSyntheticTrace(requestCount: number, seed: number): TraceRequest[] {
  const random = createSeededRandom(seed)
  const requests: TraceRequest[] = []
  const turns: Turn[] = []
  let timestampMs = 0
  let nextId = 1
  const freshIds = (count: number) => Array.from({ length: count }, () => nextId++)
  while (requests.length < requestCount) {
    if (!random.chance(1 - 1 / shape.requestsPerBatch)) timestampMs += shape.batchIntervalMs
    const earlier = random.chance(shape.continuationShare)
      ? pickTurn(turns, timestampMs, random)
      : null
    const added = draw(earlier === null ? shape.promptTokens : shape.addedTokens, random)
    const kept = earlier === null ? [0] : wholeBlocks(earlier)
    const inputLength = Math.min(
      earlier === null ? added : kept.length * traceBlockTokens + added,
      shape.promptTokens.max,
    )
    const blockCount = Math.ceil(inputLength / traceBlockTokens)
    const ids = [...kept.slice(0, blockCount), ...freshIds(Math.max(0, blockCount - kept.length))]
    const blockIds = Uint32Array.from(ids)
    const outputLength = draw(shape.answerTokens, random)
    requests.push({ timestampMs, inputLength, outputLength, blockIds })
    const isLast = earlier === null && random.chance(shape.singleTurnShare)
    if (!isLast) turns.push({ timestampMs, blockIds, inputLength, isContinued: false })
  }
  return requests
}

/** The open turn that lies nearest before a drawn pause; null when the trace isn't old enough for it. */
function pickTurn(turns: readonly Turn[], nowMs: number, random: SeededRandom): Turn | null {
  const at = nowMs - draw(shape.pauseMs, random)
  if (at < 0) return null
  let low = 0
  let high = turns.length
  while (low < high) {
    const middle = (low + high) >> 1
    if (turns[middle]!.timestampMs <= at) low = middle + 1
    else high = middle
  }
  // A batch has one timestamp: which of its turns is continued is drawn.
  const offset = random.integer(Math.ceil(shape.requestsPerBatch / 2))
  for (let index = low - 1 - offset; index >= 0; index -= 1) {
    const turn = turns[index]!
    if (turn.isContinued) continue
    turn.isContinued = true
    return turn
  }
  return null
}

const wholeBlocks = ({ blockIds, inputLength }: Turn): number[] => [
  ...blockIds.subarray(0, Math.max(1, Math.floor(inputLength / traceBlockTokens))),
]

/** Box and Muller's transform of two uniform draws. */
function draw({ mean, deviation, min, max }: LogNormal, random: SeededRandom): number {
  const radius = Math.sqrt(-2 * Math.log(1 - random.uniform()))
  const normal = radius * Math.cos(2 * Math.PI * random.uniform())
  return Math.round(Math.min(max, Math.max(min, Math.exp(mean + deviation * normal))))
}
