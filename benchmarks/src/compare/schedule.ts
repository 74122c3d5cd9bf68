/**
 * The request list of a run, computed before it from a seed: the same list, at the same moments, goes to
 * every configuration and to the oracle. Open loop: arrival times never depend on answers. Pure.
 */
import type { Random } from '@kvferry/connector-api'

/** `burst` requests arrive all at once after the measured ones: verified, but not part of the latencies. */
export type Phase = 'first' | 'warm-up' | 'measured' | 'burst'

export interface PlannedRequest {
  /** Position in the whole list. */
  readonly index: number
  readonly phase: Phase
  /** From the start of its phase. */
  readonly atMs: number
  /** Printable ASCII; one byte is one token. */
  readonly prompt: string
  readonly outputTokens: number
  readonly isStream: boolean
}

export interface ScheduleOptions {
  readonly random: Random
  /** Measured requests. */
  readonly requestCount: number
  readonly warmUpCount: number
  readonly burstCount: number
  /** Mean arrival rate of the measured requests. */
  readonly qps: number
  readonly blockTokens: number
  readonly maxModelLen: number
  /** Drawn lengths are uniform in 1..this; the longest that fits comes on top. */
  readonly promptTokensMax: number
  /** Of every warm-up and measured prompt, where they are all alike. */
  readonly inputTokens: number | null
  readonly outputTokens: number
}

/** Every length class at which block arithmetic can be wrong by one, streamed and not. */
export function edgeLengths(blockTokens: number, longest: number): number[] {
  const lengths = [1, blockTokens - 1, blockTokens, blockTokens + 1, 2 * blockTokens, longest]
  return [...new Set(lengths)].filter((length) => length >= 1 && length <= longest)
}

const firstPrintable = 0x20
const printableCount = 0x7f - firstPrintable

/** Printable ASCII; unique but for a chance of 95 to the power of its length. */
export function createPrompt(random: Random, tokenCount: number): string {
  const codes = new Array<number>(tokenCount)
  for (let i = 0; i < tokenCount; i++) {
    codes[i] = firstPrintable + Math.floor(random.uniform() * printableCount)
  }
  return codes.map((code) => String.fromCharCode(code)).join('')
}

/** Inverse of the exponential distribution: one gap of a Poisson process with `qps` arrivals a second. */
export const poissonGapMs = (random: Random, qps: number): number =>
  (-Math.log(1 - random.uniform()) / qps) * 1_000

/** Fisher-Yates. */
function shuffle<T>(random: Random, values: readonly T[]): T[] {
  const result = [...values]
  for (let i = result.length - 1; i > 0; i--) {
    const j = Math.floor(random.uniform() * (i + 1))
    ;[result[i], result[j]] = [result[j] as T, result[i] as T]
  }
  return result
}

interface Shape {
  readonly promptTokens: number
  readonly isStream: boolean
}

const isStreamAt = (position: number): boolean => position % 4 !== 0

/** The edge lengths first (streamed and not), then drawn ones of which three in four stream. */
function createShapes(options: ScheduleOptions, count: number): Shape[] {
  const { random, blockTokens, maxModelLen, outputTokens, promptTokensMax } = options
  const longest = maxModelLen - outputTokens
  const edges = edgeLengths(blockTokens, longest).flatMap((promptTokens) => [
    { promptTokens, isStream: true },
    { promptTokens, isStream: false },
  ])
  const drawnMax = Math.min(promptTokensMax, longest)
  const shapes = edges.slice(0, count)
  while (shapes.length < count) {
    shapes.push({
      promptTokens: 1 + Math.floor(random.uniform() * drawnMax),
      isStream: isStreamAt(shapes.length),
    })
  }
  return shuffle(random, shapes)
}

/** As many of the one length that was asked for, or of all classes. */
function createLoad(options: ScheduleOptions, count: number): Shape[] {
  const { inputTokens } = options
  if (inputTokens === null) return createShapes(options, count)
  return Array.from({ length: count }, (_, position) => ({
    promptTokens: inputTokens,
    isStream: isStreamAt(position),
  }))
}

/**
 * One lone request (it pays for the handshake), the warm-up, the measured Poisson arrivals, the burst.
 * @throws RangeError when the longest sequence has no room for a prompt, or not for one of `inputTokens`.
 */
export function createSchedule(options: ScheduleOptions): PlannedRequest[] {
  const { random, outputTokens, maxModelLen, qps } = options
  const shortest = options.inputTokens ?? 1
  if (maxModelLen - outputTokens < shortest) {
    throw new RangeError(`maxModelLen ${maxModelLen} has no room for a prompt of ${shortest}`)
  }
  const planned: PlannedRequest[] = []
  const plan = (phase: Phase, shapes: readonly Shape[], nextGapMs: () => number): void => {
    let atMs = 0
    for (const { promptTokens, isStream } of shapes) {
      planned.push({
        index: planned.length,
        phase,
        atMs,
        prompt: createPrompt(random, promptTokens),
        outputTokens,
        isStream,
      })
      atMs += nextGapMs()
    }
  }
  plan('first', [{ promptTokens: options.blockTokens, isStream: true }], () => 0)
  plan('warm-up', createLoad(options, options.warmUpCount), () => 1_000 / qps)
  plan('measured', createLoad(options, options.requestCount), () => poissonGapMs(random, qps))
  plan('burst', createShapes(options, options.burstCount), () => 0)
  return planned
}
