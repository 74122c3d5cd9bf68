/**
 * What an engine says about itself at `GET /kvferry/v1/peer`, together with what the operator says about
 * it. Pure. Who can work with whom is in engine-match.ts.
 */
import { z } from 'zod'
import type { DeclaredPrefill } from './handoff.ts'

const id = z.string().min(1).max(256)
const peerSchema = z.looseObject({
  /** null: the engine runs without a connector. */
  connector: id.nullable(),
  transferMode: id.nullable(),
  /** Absent in engines of before it was published: their mode says which it is. */
  dispatch: id.nullable().default(null),
  engineId: id,
  incarnation: id,
  role: z.enum(['producer', 'consumer', 'both']),
  blockTokens: z.number().int().positive(),
  model: id,
  wireVersion: z.number().int().nonnegative(),
  /** An engine that ends or is broken still describes itself, so that it isn't sent anything. */
  state: z.enum(['serving', 'ending', 'failed']).default('serving'),
  /** Where decode engines reach it. */
  sideChannel: z
    .object({ host: id, port: z.int().min(1).max(65_535) })
    .nullable()
    .default(null),
  tpSize: z.int().positive().nullable().default(null),
  ppSize: z.int().positive().nullable().default(null),
  /** Capabilities of the connector; absent = both sides need the same block size, and the same TP size. */
  supportsDifferentBlockSizes: z.boolean().default(false),
  tensorParallel: z.enum(['single', 'equal', 'mapped']).default('equal'),
})

/** Fields are null where neither the engine nor the operator says anything. */
export interface EnginePeer {
  readonly connector: string | null
  readonly transferMode: string | null
  /** In which order P and D are asked, by the name of a dispatch strategy. */
  readonly dispatch: string | null
  readonly engineId: string | null
  readonly incarnation: string | null
  readonly role: 'producer' | 'consumer' | 'both'
  readonly blockTokens: number | null
  readonly model: string | null
  readonly wireVersion: number | null
  readonly state: 'serving' | 'ending' | 'failed'
  readonly sideChannel: { readonly host: string; readonly port: number } | null
  readonly tpSize: number | null
  readonly ppSize: number | null
  readonly supportsDifferentBlockSizes: boolean
  readonly tensorParallel: 'single' | 'equal' | 'mapped'
}

/** Of engines that don't say: what connectors of these modes needed when the mode alone told it. */
const dispatchOfMode: Readonly<Record<string, string>> = {
  pull: 'sequential',
  ticket: 'sequential',
  push: 'concurrent',
}

const dispatchFor = (transferMode: string | null): string | null =>
  transferMode === null ? null : (dispatchOfMode[transferMode] ?? null)

/**
 * The engine's own word; but the operator knows better where it can be reached (an engine often announces
 * its own loopback address), and knows what it does not say. Null when the description is malformed.
 */
export function parseEnginePeer(
  input: unknown,
  { sideChannel, tpSize }: DeclaredPrefill = {},
): EnginePeer | null {
  const parsed = peerSchema.safeParse(input)
  if (!parsed.success) return null
  const { data } = parsed
  return {
    ...data,
    dispatch: data.dispatch ?? dispatchFor(data.transferMode),
    sideChannel: sideChannel ?? data.sideChannel,
    tpSize: data.tpSize ?? tpSize ?? null,
  }
}

/** What an operator may say of engines that don't describe themselves, with their transfer modes. */
export const declarable = { pull: 'pull', push: 'push', xavier: 'ticket' } as const
export type DeclarableConnector = keyof typeof declarable

/** An engine without the endpoint: only what the operator said. */
export function declaredPeer(
  connector: DeclarableConnector,
  role: 'producer' | 'consumer',
  { engineId, sideChannel, tpSize }: DeclaredPrefill,
): EnginePeer {
  return {
    connector,
    transferMode: declarable[connector],
    dispatch: dispatchFor(declarable[connector]),
    engineId: engineId ?? null,
    incarnation: null,
    role,
    blockTokens: null,
    model: null,
    wireVersion: null,
    state: 'serving',
    sideChannel: sideChannel ?? null,
    tpSize: tpSize ?? null,
    ppSize: null,
    supportsDifferentBlockSizes: false,
    tensorParallel: 'equal',
  }
}
