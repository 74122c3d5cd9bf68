/**
 * Values of command-line flags, checked one by one. Pure; says what is wrong in one line.
 */
import type { Devices } from '../compare/process-cluster.ts'
import { UsageError } from '../usage-error.ts'

export interface Range {
  readonly min: number
  readonly max: number
  /** Where the numbers don't say it themselves. */
  readonly why?: string
}

/** @throws UsageError, like everything here. */
export function oneOf<T extends string>(flag: string, value: string, allowed: readonly T[]): T {
  if ((allowed as readonly string[]).includes(value)) return value as T
  throw new UsageError(`--${flag} ${value}: use one of ${allowed.join(', ')}`)
}

/** `cuda:0,cuda:1`: P's and D's; one alone is both's. Absent: null. */
export function parseDevices(text: string | undefined): Devices | null {
  if (text === undefined) return null
  const [prefill = '', decode = prefill, ...others] = text.split(',')
  const isDevice = (word: string) => /^(cpu|cuda:\d+)$/.test(word)
  if (isDevice(prefill) && isDevice(decode) && others.length === 0) return { prefill, decode }
  throw new UsageError(`--devices ${text}: use cpu or cuda:N, or two of them for P and D`)
}

export function numberBetween(flag: string, text: string, range: Range): number {
  const value = Number(text)
  if (text.trim() !== '' && Number.isFinite(value) && value >= range.min && value <= range.max) {
    return value
  }
  const { min, max, why } = range
  const reason = why === undefined ? '' : ` (${why})`
  throw new UsageError(`--${flag} ${text}: use a number from ${min} to ${max}${reason}`)
}

export function integerBetween(flag: string, text: string, range: Range): number {
  const value = numberBetween(flag, text, range)
  if (Number.isInteger(value)) return value
  throw new UsageError(`--${flag} ${text}: use a whole number`)
}

/** The value is JSON where it parses as such (numbers, booleans), else the text itself. */
export function parseValue(text: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch {
    return text
  }
}

/** `key=value`, repeated. */
export function parseConnectorOptions(pairs: readonly string[]): Record<string, unknown> {
  const options: Record<string, unknown> = {}
  for (const pair of pairs) {
    const at = pair.indexOf('=')
    if (at < 1) throw new UsageError(`--option ${pair}: use key=value`)
    options[pair.slice(0, at)] = parseValue(pair.slice(at + 1))
  }
  return options
}
