/**
 * Reads the fields of a connector's `options`, all of them before it complains: a file is mended in one go.
 * Each reader answers a value of the right type and range; of a wrong one it notes field, value and remedy, and answers
 * what an absent one would be.
 */
import { ConnectorError } from '../index.ts'
import { nearestOption } from './nearest-option.ts'

type Options = Readonly<Record<string, unknown>>

interface Problem {
  readonly field: string
  readonly value: string
  readonly remedy: string
  readonly sentence: string
}

interface Range {
  readonly min: number
  readonly max: number
}

/** `Field`: names of options. */
export interface OptionFields<Field extends string> {
  /** The first choice when absent. */
  choice<T extends string>(field: Field, choices: readonly [T, ...T[]]): T
  /** False when absent. */
  flag(field: Field): boolean
  integer(field: Field, fallback: number, range: Range): number
  /** Null when absent. */
  integerOrNull(field: Field, range: Range): number | null
  /** A rule between fields. It is judged only where `field` and `beside` are right by themselves. */
  rule(rule: {
    readonly field: Field
    readonly beside: Field
    readonly holds: boolean
    readonly remedy: string
  }): void
}

/** Characters of a value that a message shows. */
const shownLengthMax = 80

function show(value: unknown): string {
  const text = typeof value === 'object' ? JSON.stringify(value) : String(value)
  return text.length <= shownLengthMax ? text : `${text.slice(0, shownLengthMax)}…`
}

class FieldReader implements OptionFields<string> {
  readonly problems: Problem[] = []
  readonly #options: Options
  readonly #refused = new Set<string>()

  constructor(options: Options) {
    this.#options = options
  }

  note(key: string, what: string, remedy: string): void {
    this.#refused.add(key)
    const field = `options.${key}`
    const value = show(this.#options[key])
    this.problems.push({ field, value, remedy, sentence: `${field}: ${value} ${what}; ${remedy}` })
  }

  #read<T>(field: string, fallback: T, isRight: (value: unknown) => boolean, remedy: string): T {
    const value = this.#options[field]
    if (value === undefined) return fallback
    if (isRight(value)) return value as T
    this.note(field, 'is not valid', remedy)
    return fallback
  }

  choice<T extends string>(field: string, choices: readonly [T, ...T[]]): T {
    const isRight = (value: unknown) => (choices as readonly unknown[]).includes(value)
    return this.#read(field, choices[0], isRight, `use ${choices.join(' or ')}`)
  }

  flag(field: string): boolean {
    return this.#read(field, false, (value) => typeof value === 'boolean', 'use true or false')
  }

  integer(field: string, fallback: number, { min, max }: Range): number {
    const isRight = (value: unknown) =>
      Number.isInteger(value) && min <= (value as number) && (value as number) <= max
    return this.#read(field, fallback, isRight, `use an integer in ${min}..${max}`)
  }

  integerOrNull(field: string, range: Range): number | null {
    const isAbsent = (this.#options[field] ?? null) === null
    return isAbsent ? null : this.integer(field, range.min, range)
  }

  rule({ field, beside, holds, remedy }: Parameters<OptionFields<string>['rule']>[0]): void {
    if (holds || this.#refused.has(field) || this.#refused.has(beside)) return
    this.note(field, 'is not valid', remedy)
  }
}

/**
 * What `read` makes of the fields. Keys that it doesn't answer are unknown options. `foreignNames`: settings of others
 * that are ours under another name.
 * @throws ConnectorError ERR_KV_CONFIG naming each unknown key with the nearest known one, and each wrong field, with
 *   value and remedy; `details` are the first's.
 */
export function readOptions<T extends object>(
  options: Options,
  foreignNames: ReadonlyMap<string, string>,
  read: (fields: OptionFields<Extract<keyof T, string>>) => T,
): T {
  const unknown = new FieldReader(options)
  const fields = new FieldReader(options)
  const result = read(fields)
  const known = Object.keys(result)
  for (const key of Object.keys(options).filter((each) => !known.includes(each))) {
    const near = nearestOption(key, known, foreignNames)
    const remedy =
      near === null ? `remove it; known options: ${known.join(', ')}` : `did you mean ${near}?`
    unknown.note(key, 'is unknown', remedy)
  }
  const problems = [...unknown.problems, ...fields.problems]
  const [first] = problems
  if (first === undefined) return result
  const sentences = problems.map(({ sentence }) => sentence).join('. ')
  const { field, value, remedy } = first
  const details = { field, value, remedy }
  throw new ConnectorError('ERR_KV_CONFIG', sentences.replaceAll('?. ', '? '), details)
}
