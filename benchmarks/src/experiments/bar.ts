/**
 * A bar: what the project claims of an experiment, with the number that decides it. Pure. Where the runs that
 * a bar speaks of are not there it is not judged, which is not the same as held; nor is it held where its limit
 * gives way to noise so far that nearly everything would keep it.
 */
import { percentText } from '../lib/percent-text.ts'
import { guard } from '../limits.ts'

export interface Bar {
  /** The runs that it speaks of, or their connector. */
  readonly subject: string
  readonly rule: string
  readonly value: number | null
  readonly limit: number | null
  /** What the limit gives way to: the noise floor as a share of the quantity. Null where it gives way to none. */
  readonly noise: number | null
  /** `too-noisy`: its limit is kept, with more noise in it than `guard.noiseShareMax`. */
  readonly verdict: 'held' | 'missed' | 'too-noisy' | 'not-judged'
  /** The numbers behind the value, in words. */
  readonly note: string
}

type Described = Pick<Bar, 'subject' | 'rule' | 'note'>

const round = (value: number): number => Number(value.toPrecision(6))

function bar(
  described: Described,
  value: number | null,
  limit: number | null,
  isHeld: (value: number, limit: number) => boolean,
): Bar {
  if (value === null || limit === null || !Number.isFinite(value) || !Number.isFinite(limit)) {
    return { ...described, value: null, limit: null, noise: null, verdict: 'not-judged' }
  }
  const verdict = isHeld(value, limit) ? 'held' : 'missed'
  return { ...described, value: round(value), limit: round(limit), noise: null, verdict }
}

export const atMost = (described: Described, value: number | null, limit: number | null): Bar =>
  bar(described, value, limit, (found, most) => found <= most)

export const atLeast = (described: Described, value: number | null, limit: number | null): Bar =>
  bar(described, value, limit, (found, least) => found >= least)

export const below = (described: Described, value: number | null, limit: number | null): Bar =>
  bar(described, value, limit, (found, other) => found < other)

/**
 * At most `other` and its noise, a share of it. What is worse by more than even a large noise is missed; what
 * only a large noise excuses is not held.
 */
export function atMostBesideNoise(
  described: Described,
  value: number | null,
  other: number | null,
  noise: number | null,
): Bar {
  const limit = other === null || noise === null ? null : other * (1 + noise)
  const judged = atMost(
    { ...described, note: `${described.note}; A-A noise ${percentText(noise)}` },
    value,
    limit,
  )
  if (noise === null || judged.verdict === 'not-judged') return judged
  const isExcused = judged.verdict === 'held' && noise > guard.noiseShareMax
  return { ...judged, noise: round(noise), verdict: isExcused ? 'too-noisy' : judged.verdict }
}

/** The numbers stay, the verdict goes. */
export const withoutVerdict = (bars: readonly Bar[], reason: string): Bar[] =>
  bars.map((each) => ({
    ...each,
    verdict: 'not-judged',
    note: each.note === '' ? reason : `${each.note}; ${reason}`,
  }))

/** Times that describe the machine decide nothing. */
export function unlessInvalid(
  bars: readonly Bar[],
  runs: readonly { readonly label: string; readonly valid: boolean }[],
): Bar[] {
  const invalid = runs.filter(({ valid }) => !valid).map(({ label }) => label)
  if (invalid.length === 0) return [...bars]
  return withoutVerdict(bars, `outside the overrun guard: ${invalid.join(', ')}`)
}

export const missedTexts = (bars: readonly Bar[]): string[] =>
  bars
    .filter(({ verdict }) => verdict === 'missed')
    .map(
      ({ subject, rule, value, limit, note }) =>
        `${subject}: bar missed: ${rule} (${value}, limit ${limit}${note === '' ? '' : `; ${note}`})`,
    )

/** What nobody may take for held. */
export const noisyTexts = (bars: readonly Bar[]): string[] =>
  bars
    .filter(({ verdict }) => verdict === 'too-noisy')
    .map(
      ({ subject, rule, noise }) =>
        `${subject}: bar not judged: ${rule} (noise ${percentText(noise)}, more than ${percentText(guard.noiseShareMax)})`,
    )
