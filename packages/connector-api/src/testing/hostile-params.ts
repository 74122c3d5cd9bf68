/**
 * Hostile `kv_transfer_params`, made of genuine ones, against what a connector makes of them: anybody on the
 * network of the router may have written them. For tests of any runner: what is not so is thrown.
 */
import type { KvTransferParams } from '../connector.ts'
import { createByteMutator } from './byte-mutator.ts'

type Consumed<Parsed> = Extract<Parsed, { readonly kind: 'consume' }>

export interface HostileParams<Parsed extends { readonly kind: string }> {
  readonly genuine: KvTransferParams
  readonly seed: number
  /** Mutations of the JSON text; about half of them are no JSON object, and are passed over. */
  readonly count: number
  readonly parse: (params: KvTransferParams) => Parsed
  /** Whether everything in params that were taken for good is within its bounds. */
  readonly isSound: (parsed: Consumed<Parsed>) => boolean
  /** No fewer than so many are to be `consume`, and so many `malformed`: else nothing was tried. Default 50. */
  readonly kindCountMin?: number
}

/**
 * How many of each kind there were.
 * @throws Error with the params when `parse` throws or lets something unsound through, or when too few were
 *   taken or refused.
 */
export function sweepHostileParams<Parsed extends { readonly kind: string }>(
  sweep: HostileParams<Parsed>,
): ReadonlyMap<string, number> {
  const { stackTraceLimit } = Error
  // A stack trace for each refusal would be most of the work.
  Error.stackTraceLimit = 0
  try {
    return countKinds(sweep)
  } finally {
    Error.stackTraceLimit = stackTraceLimit
  }
}

function countKinds<Parsed extends { readonly kind: string }>({
  genuine,
  seed,
  count,
  parse,
  isSound,
  kindCountMin = 50,
}: HostileParams<Parsed>): ReadonlyMap<string, number> {
  const corpus = [new TextEncoder().encode(JSON.stringify(genuine))]
  const next = createByteMutator({ corpus, seed })
  const kinds = new Map<string, number>()
  for (let made = 0; made < count; made++) {
    const params = paramsOf(next())
    if (params === null) continue
    const parsed = parseOrName(parse, params)
    kinds.set(parsed.kind, (kinds.get(parsed.kind) ?? 0) + 1)
    if (parsed.kind !== 'consume' || isSound(parsed as Consumed<Parsed>)) continue
    throw new Error(`out of bounds: ${JSON.stringify(params)}`)
  }
  for (const kind of ['consume', 'malformed']) {
    const found = kinds.get(kind) ?? 0
    if (found < kindCountMin) throw new Error(`${found} are ${kind}, fewer than ${kindCountMin}`)
  }
  return kinds
}

function paramsOf(text: Uint8Array): KvTransferParams | null {
  try {
    const value: unknown = JSON.parse(new TextDecoder().decode(text))
    return typeof value === 'object' && value !== null ? (value as KvTransferParams) : null
  } catch {
    return null
  }
}

function parseOrName<Parsed>(
  parse: (params: KvTransferParams) => Parsed,
  params: KvTransferParams,
): Parsed {
  try {
    return parse(params)
  } catch (cause) {
    throw new Error(`it throws: ${JSON.stringify(params)}`, { cause })
  }
}
