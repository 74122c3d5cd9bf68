/**
 * Moves scattered blocks between an own pool and a target's, point by point, and checks every slot. A transfer can't be
 * cancelled, so a sample says first whether all of it can end in time; one that is overdue all the same leaves the
 * meter stuck: its process has to end. Used by `doctor --rates` and by the GPU measurements.
 */
import type {
  AgentPath,
  KvKernels,
  PeerHandle,
  RegionHandle,
  TransferAgent,
  TransferCompletion,
  TransferHandle,
  TransferPost,
} from '@kvferry/connector-api'
import { createNixlAgent } from '../create-agent.ts'
import {
  median,
  rateLimits,
  repeatsWithin,
  scattered,
  unmeasured,
  whyNot,
  type RatePoint,
  type RateResult,
} from './rates-plan.ts'
import type { RatesPool } from './rates-pool.ts'
import {
  answerFor,
  rateAgentOptions,
  type RateAnswer,
  type RateQuestion,
  type RateTargetFacts,
} from './rates-target.ts'

type Ask = (question: RateQuestion) => Promise<RateAnswer>
type Done = TransferCompletion & { readonly status: 'done' }
/** Who fills, who is spoilt and digested, and which blocks of each. */
interface Ends {
  readonly source: { readonly ask: Ask; readonly ids: Uint32Array }
  readonly destination: { readonly ask: Ask; readonly ids: Uint32Array }
}

export interface RateMeterOptions {
  readonly name: string
  readonly device: number | null
  /** Of the path `ipc`; null: one for each multiprocessor. */
  readonly ctaCount?: number | null
  readonly totalBytes: number
  /** Twice as large. */
  readonly pool: RatesPool
  readonly kernels: KvKernels
  readonly facts: RateTargetFacts
  readonly ask: Ask
}

class Overdue extends Error {}

export class RateMeter {
  readonly paths: readonly AgentPath[]
  readonly #init: RateMeterOptions
  readonly #agent: TransferAgent
  readonly #region: RegionHandle
  readonly #peer: PeerHandle
  readonly #askHere: Ask
  readonly #ends = new Map<TransferHandle, (completion: TransferCompletion) => void>()
  #isStuck = false

  private constructor(
    init: RateMeterOptions,
    opened: { agent: TransferAgent; region: RegionHandle; peer: PeerHandle },
  ) {
    this.#init = init
    this.#agent = opened.agent
    this.#region = opened.region
    this.#peer = opened.peer
    this.#askHere = answerFor(init.pool, init.kernels)
    this.paths = opened.agent.pathsTo(opened.peer)
    opened.agent.setListener({
      onCompletions: (batch) => {
        for (const completion of batch) {
          this.#ends.get(completion.transfer)?.(completion)
          this.#ends.delete(completion.transfer)
        }
      },
      onNotifications() {},
      onBroken(error) {
        throw error
      },
    })
  }

  static async open(init: RateMeterOptions): Promise<RateMeter> {
    const { name, device, ctaCount = null, pool, facts } = init
    const agent = await createNixlAgent({ name, ...rateAgentOptions(device, ctaCount) })
    const { memory, sizeBytes: lengthBytes } = pool
    const region = await agent.registerRegion({ memory, offsetBytes: 0, lengthBytes })
    const peer = await agent.addPeer({ metadata: facts.metadata, expectedName: facts.name })
    return new RateMeter(init, { agent, region, peer })
  }

  /** A transfer of it has no end: nothing more can be measured here. */
  get isStuck(): boolean {
    return this.#isStuck
  }

  /**
   * `limitMs`: of the transfers that are measured; `deadlineMs`: of a single one, after which it has no end. Never rejects
   * for what the agents or the target answer.
   */
  async measure(point: RatePoint, limitMs: number, deadlineMs = limitMs): Promise<RateResult> {
    const { totalBytes } = this.#init
    const isWhole = point.blockBytes === totalBytes
    const reason = isWhole ? null : whyNot(point, totalBytes)
    if (reason !== null) return unmeasured(point, 'skipped', reason)
    try {
      return await this.#measure(point, { limitMs, deadlineMs })
    } catch (error) {
      const detail = error instanceof Error ? error.message : String(error)
      return unmeasured(point, error instanceof Overdue ? 'cut-off' : 'failed', detail)
    }
  }

  async #measure(
    point: RatePoint,
    { limitMs, deadlineMs }: { limitMs: number; deadlineMs: number },
  ): Promise<RateResult> {
    const { direction, path, blockBytes } = point
    const { totalBytes, pool, facts, ask } = this.#init
    const isWhole = blockBytes === totalBytes
    const places = pool.sizeBytes / blockBytes
    const here = isWhole ? Uint32Array.of(1) : scattered(places, 11)
    const there = isWhole ? Uint32Array.of(0) : scattered(places, 22)
    const [own, others] = [
      { ask: this.#askHere, ids: here },
      { ask, ids: there },
    ]
    const ends: Ends =
      direction === 'write'
        ? { source: own, destination: others }
        : { source: others, destination: own }
    const local = this.#agent.declareBlockTable([pool.region(this.#region, blockBytes)])
    const remote = this.#agent.importBlockTable(this.#peer, facts.tables[blockBytes]!)
    try {
      const expected = await ends.source.ask({ kind: 'fill', ids: ends.source.ids, blockBytes })
      await ends.destination.ask({ kind: 'spoil' })
      const move = (count: number) =>
        this.#move({
          ...{ direction, path, peer: this.#peer, deadlineMs },
          local: { table: local, blockIds: here.subarray(0, count) },
          remote: { table: remote, blockIds: there.subarray(0, count) },
        })
      const sampleCount = Math.max(1, Math.floor(rateLimits.sampleSizeBytes / blockBytes))
      const count = Math.min(sampleCount, here.length)
      // The first opens the way.
      await move(count)
      const sample = await move(count)
      const sampled = { bytes: count * blockBytes, us: usOf(sample) }
      const repeats = repeatsWithin(sampled, totalBytes, limitMs)
      const moves = repeats === 0 ? [sample] : await repeat(repeats, () => move(here.length))
      const ids = ends.destination.ids.subarray(0, repeats === 0 ? count : here.length)
      const found = await ends.destination.ask({ kind: 'digest', ids, blockBytes })
      return resultOf(point, repeats > 0, moves, countWrong(expected, found))
    } finally {
      if (!this.#isStuck) {
        this.#agent.releaseBlockTable(local)
        this.#agent.releaseBlockTable(remote)
      }
    }
  }

  async #move(post: TransferPost): Promise<Done> {
    const ended = new Promise<TransferCompletion>((resolve) => {
      const [transfer] = this.#agent.post([post])
      this.#ends.set(transfer!, resolve)
    })
    const completion = await ended
    if (completion.status === 'done') return completion
    if (completion.status === 'failed') throw completion.error
    this.#isStuck = true
    throw new Overdue(`a transfer had not ended after ${post.deadlineMs} ms`)
  }
}

const usOf = ({ times }: Done): number => times.prepareUs + times.wireUs

/** The first one warms up. */
async function repeat(count: number, move: () => Promise<Done>): Promise<Done[]> {
  const moves: Done[] = []
  await move()
  while (moves.length < count) moves.push(await move())
  return moves
}

function countWrong(expected: RateAnswer, found: RateAnswer): number {
  let wrong = 0
  found?.forEach((digest, at) => (wrong += digest === expected?.[at] ? 0 : 1))
  return wrong
}

function resultOf(
  point: RatePoint,
  isWhole: boolean,
  moves: readonly Done[],
  wrongSlots: number,
): RateResult {
  const us = moves.map(usOf)
  const { bytes, descriptorsAfterMerge: descriptors } = moves[0]!.times
  const medianOf = (read: (done: Done) => number) => Math.round(median(moves.map(read)))
  const isRight = wrongSlots === 0
  return {
    ...point,
    outcome: !isRight ? 'failed' : isWhole ? 'measured' : 'cut-off',
    gigabytesPerSecond: Math.round(bytes / median(us) / 10) / 100,
    ...{ bytes, us, descriptors, wrongSlots },
    postUs: medianOf(({ times }) => times.postUs),
    prepareUs: medianOf(({ times }) => times.prepareUs),
    detail: isRight ? null : `${wrongSlots} slots of 4 KiB are wrong`,
  }
}
