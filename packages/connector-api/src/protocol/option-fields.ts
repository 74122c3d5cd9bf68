/**
 * Reads single fields of a connector's `options`. Each reader returns a value of the right type and range,
 * or throws ERR_KV_CONFIG with field, value and remedy.
 */
import { ConnectorError } from '../index.ts'
import { nearestOption } from './nearest-option.ts'

type Options = Readonly<Record<string, unknown>>

/**
 * `foreignNames`: settings of others that are ours under another name.
 * @throws ConnectorError ERR_KV_CONFIG naming each of them, and the nearest known key; `details` are the first's.
 */
export function refuseUnknownOptions(
  options: Options,
  known: readonly string[],
  foreignNames: ReadonlyMap<string, string>,
): void {
  const unknown = Object.keys(options).filter((key) => !known.includes(key))
  const problems = unknown.map((key) => {
    const near = nearestOption(key, known, foreignNames)
    const remedy =
      near === null ? `remove it; known options: ${known.join(', ')}` : `did you mean ${near}?`
    return { field: `options.${key}`, value: String(options[key]), remedy }
  })
  const [first] = problems
  if (first === undefined) return
  const sentences = problems.map(({ field, remedy }) => `${field} is unknown; ${remedy}`)
  const message = sentences.join('. ').replaceAll('?. ', '? ')
  throw new ConnectorError('ERR_KV_CONFIG', message, first)
}

/** The first choice when absent. @throws ConnectorError ERR_KV_CONFIG, as all below. */
export function choiceOption<T extends string>(
  options: Options,
  field: string,
  choices: readonly [T, ...T[]],
): T {
  const value = options[field]
  if (value === undefined) return choices[0]
  if ((choices as readonly unknown[]).includes(value)) return value as T
  throw invalidOption(field, value, choices.join(' or '))
}

/** @throws ConnectorError ERR_KV_CONFIG. False when absent. */
export function flagOption(options: Options, field: string): boolean {
  const value = options[field] ?? false
  if (typeof value !== 'boolean') throw invalidOption(field, value, 'true or false')
  return value
}

/** @throws ConnectorError ERR_KV_CONFIG. */
export function integerOption(
  options: Options,
  field: string,
  fallback: number,
  { min, max }: { readonly min: number; readonly max: number },
): number {
  const value = options[field]
  if (value === undefined) return fallback
  if (typeof value !== 'number' || !Number.isInteger(value) || value < min || value > max) {
    throw invalidOption(field, value, `an integer in ${min}..${max}`)
  }
  return value
}

export function invalidOption(
  key: string,
  value: unknown,
  remedy: string,
): ConnectorError<'ERR_KV_CONFIG'> {
  const field = `options.${key}`
  return new ConnectorError('ERR_KV_CONFIG', `${field}: ${String(value)} is not valid; ${remedy}`, {
    field,
    value: String(value),
    remedy,
  })
}
