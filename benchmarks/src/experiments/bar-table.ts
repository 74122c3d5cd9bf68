/** Bars as a table, on the screen and in a report. Pure. */
import { percentText } from '../lib/percent-text.ts'
import type { Bar } from './bar.ts'

const verdictTexts: Readonly<Record<Bar['verdict'], (bar: Bar) => string>> = {
  held: () => 'held',
  missed: () => 'MISSED',
  'too-noisy': ({ noise }) => `not judged (noise ${percentText(noise)})`,
  'not-judged': () => 'not judged',
}

const number = (value: number | null): string =>
  value === null ? '–' : String(Number(value.toPrecision(4)))

interface BarTexts {
  readonly rule: string
  readonly value: string
  readonly verdict: string
}

function textsOf(bar: Bar): BarTexts {
  const { subject, rule, value, limit, verdict, note } = bar
  return {
    rule: `${subject}: ${rule}`,
    value: `${number(value)} (limit ${number(limit)}; ${note})`,
    verdict: verdictTexts[verdict](bar),
  }
}

export const barHead = ['bar', 'value', 'verdict'] as const

/** Under `barHead`. */
export const barRows = (bars: readonly Bar[]): string[][] =>
  bars.map(textsOf).map(({ rule, value, verdict }) => [rule, value, verdict])

/** `whenEmpty` says why there are none. */
export function barText(bars: readonly Bar[], whenEmpty: string): string {
  if (bars.length === 0) return whenEmpty
  return bars
    .map(textsOf)
    .map(({ rule, value, verdict }) => `${verdict.padEnd(10)}  ${rule}\n            ${value}`)
    .join('\n')
}
