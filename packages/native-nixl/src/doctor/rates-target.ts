/**
 * The other end of a rate measurement, in a process of its own: owns a pool, fills and digests it when told to, and lends
 * slabs. What is moved, and when, the initiator decides.
 */
import type { KvKernels } from '@kvferry/connector-api'
import { createNixlAgent } from '../create-agent.ts'
import { createKernels } from '../kernels.ts'
import { openPool, slotsOf, type RatesPool } from './rates-pool.ts'

export interface RateTargetFacts {
  readonly name: string
  readonly metadata: Uint8Array
  /** Exported tables, by bytes of a block. */
  readonly tables: Readonly<Record<number, Uint8Array>>
}

export type RateQuestion =
  | { readonly kind: 'spoil' }
  /** Writes what is expected of these blocks, or says what they are: a digest for each slot. */
  | { readonly kind: 'fill' | 'digest'; readonly ids: Uint32Array; readonly blockBytes: number }

/** Null for `spoil`. */
export type RateAnswer = BigUint64Array | null

/** On a GPU as many as fill the link; on the host what agents have by default. */
export const rateSlabs = (device: number | null) =>
  device === null ? {} : { sizeBytes: 16_777_216, count: 8 }

/** The paths of a process that measures: all that there are. */
export const rateAgentOptions = (device: number | null, ctaCount: number | null = null) => ({
  ...{ device, slabs: rateSlabs(device) },
  ipc: device === null ? null : { ctaCount },
})

/** What belongs into slot `index` of the blocks that are moved. */
const seedOf = (index: number): bigint => BigInt(index) + 5n

/** Answers questions about one pool; both ends have one. */
export function answerFor(pool: RatesPool, kernels: KvKernels) {
  return async (question: RateQuestion): Promise<RateAnswer> => {
    if (question.kind === 'spoil') {
      pool.spoil()
      return null
    }
    const { kind, ids, blockBytes } = question
    const caches = pool.caches(pool.slotBytes)
    const slots = slotsOf(ids, blockBytes, pool)
    if (kind === 'digest') return kernels.digest(caches, slots)
    const seeds = BigUint64Array.from({ length: slots.blockIds.length }, (_, index) =>
      seedOf(index),
    )
    return kernels.fill(caches, slots, seeds)
  }
}

export async function openRateTarget(options: {
  readonly device: number | null
  /** Moved in one transfer; the pool has twice as many. */
  readonly totalBytes: number
  readonly blockSizes: readonly number[]
}): Promise<{
  readonly facts: RateTargetFacts
  readonly answer: (question: RateQuestion) => Promise<RateAnswer>
}> {
  const { device, totalBytes, blockSizes } = options
  const name = `rates-target-${process.pid}`
  const agent = await createNixlAgent({ name, ...rateAgentOptions(device) })
  agent.expectNotifications(true)
  const pool = openPool(device, 2 * totalBytes)
  const { memory, sizeBytes: lengthBytes } = pool
  const region = await agent.registerRegion({ memory, offsetBytes: 0, lengthBytes })
  const tables = Object.fromEntries(
    blockSizes
      .filter((blockBytes) => blockBytes <= lengthBytes)
      .map((blockBytes) => {
        const table = agent.declareBlockTable([pool.region(region, blockBytes)])
        return [blockBytes, agent.exportBlockTable(table)]
      }),
  )
  const facts = { name, metadata: await agent.localMetadata(), tables }
  return { facts, answer: answerFor(pool, createKernels()) }
}
