/**
 * What an engine says about itself at `GET /kvferry/v1/peer`, and whether a prefill and a decode engine
 * can work together. Pure. The engines check the same and more in their handshake; the router checks so
 * that a wrong pair is refused before the first request, with both values named.
 */
import { z } from 'zod'

const id = z.string().min(1).max(256)
const peerSchema = z.looseObject({
  /** null: the engine runs without a connector. */
  connector: id.nullable(),
  transferMode: id.nullable(),
  engineId: id,
  incarnation: id,
  role: z.enum(['producer', 'consumer', 'both']),
  blockTokens: z.number().int().positive(),
  model: id,
  wireVersion: z.number().int().nonnegative(),
  /** An engine that ends or is broken still describes itself, so that it isn't sent anything. */
  state: z.enum(['serving', 'ending', 'failed']).default('serving'),
  /** Capability of the connector; absent = both sides need the same block size. */
  supportsDifferentBlockSizes: z.boolean().default(false),
})

/** Fields are null where a declared engine (without the endpoint) leaves them unknown. */
export interface EnginePeer {
  readonly connector: string | null
  readonly transferMode: string | null
  readonly engineId: string
  readonly incarnation: string | null
  readonly role: 'producer' | 'consumer' | 'both'
  readonly blockTokens: number | null
  readonly model: string | null
  readonly wireVersion: number | null
  readonly state: 'serving' | 'ending' | 'failed'
  readonly supportsDifferentBlockSizes: boolean
}

/** null when the description is malformed. */
export function parseEnginePeer(input: unknown): EnginePeer | null {
  const parsed = peerSchema.safeParse(input)
  return parsed.success ? parsed.data : null
}

/** An engine without the endpoint: only what the operator said. */
export function declaredPeer(
  connector: string,
  role: 'producer' | 'consumer',
  engineId: string,
): EnginePeer {
  return {
    connector,
    transferMode: connector,
    engineId,
    incarnation: null,
    role,
    blockTokens: null,
    model: null,
    wireVersion: null,
    state: 'serving',
    supportsDifferentBlockSizes: false,
  }
}

export interface Mismatch {
  readonly field: string
  readonly prefill: string
  readonly decode: string
}

const differ = (left: unknown, right: unknown) => left !== null && right !== null && left !== right

/** The first reason why these two cannot work together, or null. */
export function findMismatch(prefill: EnginePeer, decode: EnginePeer): Mismatch | null {
  const wrongRole = prefill.role === 'consumer' || decode.role === 'producer'
  if (wrongRole) return { field: 'role', prefill: prefill.role, decode: decode.role }
  const haveOneBlockSize = !(
    prefill.supportsDifferentBlockSizes && decode.supportsDifferentBlockSizes
  )
  const fields = [
    'connector',
    'transferMode',
    'wireVersion',
    'model',
    ...(haveOneBlockSize ? (['blockTokens'] as const) : []),
  ] as const
  for (const field of fields) {
    if (differ(prefill[field], decode[field])) {
      return { field, prefill: String(prefill[field]), decode: String(decode[field]) }
    }
  }
  return null
}
