/**
 * One thing that is wrong with a configuration, and how all of them become one error. A user mends a file
 * in one go, so nothing here stops at the first.
 */
import { ConnectorError } from '@kvferry/connector-api'
import { configLimits } from './limits.ts'

export interface Problem {
  /** Dotted path, list indexes in brackets: `peers[0].port`. */
  readonly field: string
  /** As shown to the user. */
  readonly value: string
  /** What to write instead. */
  readonly remedy: string
}

export function fieldName(path: readonly PropertyKey[]): string {
  let name = ''
  for (const part of path) {
    if (typeof part === 'number') name += `[${part}]`
    else name += name === '' ? String(part) : `.${String(part)}`
  }
  return name
}

/** What stands there, or undefined; never an inherited value. */
export function valueAt(input: unknown, path: readonly PropertyKey[]): unknown {
  let value = input
  for (const part of path) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, part)) return undefined
    value = (value as Record<PropertyKey, unknown>)[part]
  }
  return value
}

function shorten(text: string): string {
  const max = configLimits.shownValueLengthMax
  return text.length <= max ? text : `${text.slice(0, max)}…`
}

/** A value in an error message: short, one line, and never a nested structure. */
export function showValue(value: unknown): string {
  if (value === undefined) return 'missing'
  if (typeof value === 'string') {
    return shorten(JSON.stringify(value.slice(0, configLimits.shownValueLengthMax + 1)))
  }
  if (typeof value === 'number' || typeof value === 'boolean' || value === null) return `${value}`
  if (Array.isArray(value)) return `a list of ${value.length}`
  return typeof value === 'object' ? 'an object' : `a ${typeof value}`
}

const sentence = ({ field, value, remedy }: Problem): string =>
  `${shorten(field === '' ? 'the configuration' : field)} is ${value}: ${remedy}`

/** The error for at least one problem; `details` are those of the first. */
export function configError(
  problems: readonly [Problem, ...Problem[]],
  options?: { readonly cause?: unknown },
): ConnectorError<'ERR_KV_CONFIG'> {
  const [first] = problems
  const shown = problems.slice(0, configLimits.problemCountMax).map(sentence)
  const hiddenCount = problems.length - shown.length
  if (hiddenCount > 0) shown.push(`and ${hiddenCount} more`)
  const message =
    problems.length === 1
      ? `configuration: ${sentence(first)}`
      : [`configuration: ${problems.length} problems`, ...shown].join('\n  - ')
  return new ConnectorError('ERR_KV_CONFIG', message, { ...first }, options)
}
