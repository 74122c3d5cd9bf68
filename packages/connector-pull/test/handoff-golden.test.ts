/**
 * The handoff's golden vectors: what is signed, as bytes, and what a consumer makes of params, well-formed
 * and not. Implementations in other languages are held to the same file. A change of it is a change of the
 * wire: it needs a new WIRE_VERSION.
 */
import { createHmac } from 'node:crypto'
import { readFileSync } from 'node:fs'
import {
  asEngineId,
  asIncarnation,
  asRequestId,
  digestTokens,
  WIRE_VERSION,
} from '@kvferry/connector-api'
import { describe, expect, test } from 'vitest'
import { matchedTokenCount } from '@kvferry/connector-api/protocol'
import { encodeHandoff, parseParams } from '../src/handoff.ts'
import { handoffBytes, isHandoffSigned, signHandoff } from '../src/handoff-signature.ts'
import type { HandoffClaims } from '../src/metadata.ts'

interface Golden {
  readonly wireVersion: number
  readonly digests: readonly { readonly tokens: readonly number[]; readonly digest: string }[]
  readonly signed: readonly {
    readonly name: string
    readonly keys: readonly string[]
    readonly claims: {
      readonly engineId: string
      readonly incarnation: string
      readonly requestId: string
      readonly host: string
      readonly port: number
      readonly blockIds: readonly number[]
      readonly tokenCount: number
      readonly promptDigest: string
      readonly blockTokens: number
      readonly leaseDeadlineMs: number
    }
    readonly bytes: string
    readonly signature: string
    readonly params: Record<string, unknown>
  }[]
  readonly parsed: readonly {
    readonly name: string
    readonly params: Record<string, unknown> | null
    readonly context: {
      readonly promptTokenCount: number
      readonly promptDigest: string
      readonly blockTokens: number
      readonly tpSize: number
      readonly engineId: string
    }
    readonly kind: string
    readonly code?: string
    readonly field?: string
    readonly matched?: readonly {
      readonly computedTokenCount: number
      readonly recomputeThreshold: number
      readonly tokens: number
    }[]
  }[]
}

const golden = JSON.parse(
  readFileSync(new URL('./golden/handoff.json', import.meta.url), 'utf8'),
) as Golden
const bytesOf = (hex: string): Uint8Array => Uint8Array.from(Buffer.from(hex, 'hex'))
const hexOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex')

test('the vectors are of this wire version', () => {
  expect(golden.wireVersion).toBe(WIRE_VERSION)
})

test.each(golden.digests)('the digest of the tokens $tokens', ({ tokens, digest }) => {
  expect(hexOf(digestTokens(tokens))).toBe(digest)
})

describe('signed', () => {
  for (const vector of golden.signed) {
    const { claims: plain } = vector
    const claims: HandoffClaims = {
      remote: {
        engineId: asEngineId(plain.engineId),
        incarnation: asIncarnation(plain.incarnation),
        requestId: asRequestId(plain.requestId),
        host: plain.host,
        port: plain.port,
      },
      blockIds: Uint32Array.from(plain.blockIds),
      tokenCount: plain.tokenCount,
      promptDigest: bytesOf(plain.promptDigest),
      blockTokens: plain.blockTokens,
      tpSize: vector.keys.length,
      leaseDeadlineMs: plain.leaseDeadlineMs,
    }
    const keys = vector.keys.map(bytesOf)

    test(vector.name, () => {
      expect(hexOf(handoffBytes(claims))).toBe(vector.bytes)
      const signature = signHandoff(claims, keys)
      expect(hexOf(signature)).toBe(vector.signature)
      expect(encodeHandoff({ ...claims, signature, isReturn: false })).toEqual(vector.params)
      keys.forEach((key, rank) =>
        expect(isHandoffSigned({ ...claims, signature }, key, rank)).toBe(true),
      )
    })

    test(`${vector.name}: a signature is what the library's HMAC is`, () => {
      const expected = keys.map((key) =>
        createHmac('sha256', key).update(handoffBytes(claims)).digest(),
      )
      expect(Buffer.compare(signHandoff(claims, keys), Buffer.concat(expected))).toBe(0)
    })

    test(`${vector.name}: nothing signed can be changed, and no other key fits`, () => {
      const signature = bytesOf(vector.signature)
      const handoff = { ...claims, signature }
      const { remote } = claims
      const [key] = keys as [Uint8Array]
      const changed: Partial<typeof handoff>[] = [
        { remote: { ...remote, engineId: asEngineId('other') } },
        { remote: { ...remote, incarnation: asIncarnation('other') } },
        { remote: { ...remote, requestId: asRequestId('other') } },
        { blockIds: Uint32Array.of(...claims.blockIds, 99) },
        { blockIds: claims.blockIds.map((id) => id ^ 1) },
        { tokenCount: claims.tokenCount + 1 },
        { promptDigest: claims.promptDigest.map((byte, at) => (at === 31 ? byte ^ 1 : byte)) },
        { blockTokens: claims.blockTokens + 1 },
        { tpSize: claims.tpSize + 1 },
        { leaseDeadlineMs: 1.5 * claims.leaseDeadlineMs },
        { signature: signature.map((byte, at) => (at === 0 ? byte ^ 1 : byte)) },
        { signature: signature.slice(1) },
      ]
      for (const change of changed) {
        expect(isHandoffSigned({ ...handoff, ...change }, key, 0)).toBe(false)
      }
      expect(
        isHandoffSigned(
          handoff,
          key.map((byte) => byte ^ 1),
          0,
        ),
      ).toBe(false)
      expect(isHandoffSigned(handoff, key, keys.length)).toBe(false)
    })
  }
})

describe('parsed', () => {
  test.each(golden.parsed.map((vector) => [vector.name, vector] as const))('%s', (_, vector) => {
    const { promptDigest, engineId, ...others } = vector.context
    const prompt = { promptDigest: bytesOf(promptDigest) }
    const context = { ...others, ...prompt, engineId: asEngineId(engineId) }
    const parsed = parseParams(vector.params, context)
    expect(parsed.kind).toBe(vector.kind)
    if (parsed.kind === 'malformed') {
      expect(parsed.error.code).toBe(vector.code)
      if (vector.field !== undefined) {
        expect(parsed.error.details).toMatchObject({ field: vector.field })
      }
    }
    for (const { computedTokenCount, recomputeThreshold, tokens } of vector.matched ?? []) {
      const matched =
        parsed.kind === 'consume'
          ? matchedTokenCount(
              { kind: 'offered', tokenEnd: parsed.handoff.tokenCount },
              computedTokenCount,
              recomputeThreshold,
            )
          : 0
      expect(matched).toBe(tokens)
    }
  })
})
